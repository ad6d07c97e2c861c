//! The facts, each a test that is named by it.

use std::{
    collections::BTreeSet,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use capi_version_guard::server::KEEP_ALIVE;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    client::{create, kubectl_create_fails, send, thing, things},
    hook::{Answer, Call, Hook},
    stack::{certificates::SERVICE, control_plane::ControlPlane},
    until,
};

type Fact = fn(&ControlPlane, &str) -> Result<()>;

/// Each fact's namespace and name.
pub const FACTS: [(&str, &str, Fact); 12] = [
    ("idle", "an_idle_connection_is_reused_and_closed_by_the_api_server_after_90_seconds", idle_connections),
    ("many-connections", "of_the_connections_to_a_webhook_25_are_kept_when_idle", many_connections),
    ("repeated", "a_503_with_retry_after_is_repeated_for_a_create", retried),
    (
        "repeated-to-the-end",
        "a_503_with_retry_after_is_repeated_ten_times_then_its_message_is_shown",
        retried_to_the_end,
    ),
    (
        "repeated-too-late",
        "a_503_with_retry_after_that_outlasts_the_timeout_loses_its_message",
        retried_past_the_deadline,
    ),
    ("not-repeated", "a_503_without_retry_after_is_not_repeated_and_its_message_is_shown", not_retried),
    ("broken", "a_call_whose_connection_breaks_is_not_repeated", broken),
    ("conflict", "a_conflict_calls_again_with_the_newer_old_object", conflict),
    ("warnings", "warnings_within_4096_characters_arrive_whole", warnings_that_fit),
    ("many-warnings", "warnings_beyond_4096_characters_are_cut_to_256_then_dropped", warnings_that_do_not_fit),
    ("converted", "requests_of_another_version_are_converted_before_the_call", converted),
    ("external-name", "a_service_of_type_external_name_is_called_by_its_own_name", external_name),
];

fn retried(control_plane: &ControlPlane, namespace: &str) -> Result<()> {
    let first = Mutex::new(true);
    let hook = Hook::start(control_plane, move |_| {
        if std::mem::take(&mut *first.lock()) {
            Answer::Http(503, "Retry-After: 1\r\n", "not yet")
        } else {
            Answer::Allow(Vec::new())
        }
    })?;
    hook.register(control_plane, namespace, &json!({"timeoutSeconds": 30}))?;
    let created = create(control_plane, namespace, "new")?;
    ensure!(created.code == 201, "{created:?}");
    let [first, second]: [Call; 2] = exactly(hook.calls())?;
    // The very same call, so the same uid; what is left of its deadline is not told again.
    equal(&first.request, &second.request)?;
    equal(&[first.path.as_str(), &second.path], &["/?timeout=30s"; 2])
}

fn retried_to_the_end(control_plane: &ControlPlane, namespace: &str) -> Result<()> {
    unavailable(control_plane, namespace, "Retry-After: 1\r\n", 11)
}

fn retried_past_the_deadline(control_plane: &ControlPlane, namespace: &str) -> Result<()> {
    let hook = Hook::start(control_plane, |_| Answer::Http(503, "Retry-After: 2\r\n", "not yet"))?;
    hook.register(control_plane, namespace, &json!({"timeoutSeconds": 5}))?;
    let printed = kubectl_create_fails(control_plane, namespace)?;
    let start = "Error from server (InternalError): error when creating \"FILE\": Internal error occurred: failed calling \
                 webhook \"recorder.example.com\": failed to call webhook: ";
    let cause = printed.strip_prefix(start).with_context(|| printed.clone())?;
    let url = format!("Post \"https://localhost:{}/?timeout=5s\": context deadline exceeded\n", hook.port);
    equal(&cause, &url.as_str())?;
    let calls = hook.calls().len();
    ensure!((2..=3).contains(&calls), "{calls} calls, 2 s apart within 5 s");
    Ok(())
}

fn not_retried(control_plane: &ControlPlane, namespace: &str) -> Result<()> {
    unavailable(control_plane, namespace, "", 1)
}

/// A webhook that always answers 503 with these headers is called so often, and then kubectl shows its message.
fn unavailable(control_plane: &ControlPlane, namespace: &str, headers: &'static str, calls: usize) -> Result<()> {
    let hook = Hook::start(control_plane, move |_| Answer::Http(503, headers, "not today"))?;
    hook.register(control_plane, namespace, &json!({"timeoutSeconds": 30}))?;
    let printed = kubectl_create_fails(control_plane, namespace)?;
    equal(
        &printed.as_str(),
        &"Error from server (InternalError): error when creating \"FILE\": Internal error occurred: failed calling webhook \
          \"recorder.example.com\": failed to call webhook: not today\n",
    )?;
    equal(&hook.calls().len(), &calls)
}

fn broken(control_plane: &ControlPlane, namespace: &str) -> Result<()> {
    let answer = |call: &Call| if call.request["name"] == "new" { Answer::Close } else { Answer::Allow(Vec::new()) };
    let hook = Hook::start(control_plane, answer)?;
    hook.register(control_plane, namespace, &json!({"timeoutSeconds": 30}))?;
    // The connection has served already, as one has that a server closes too early.
    equal(&create(control_plane, namespace, "first")?.code, &201)?;
    let printed = kubectl_create_fails(control_plane, namespace)?;
    let expected = format!(
        "Error from server (InternalError): error when creating \"FILE\": Internal error occurred: failed calling webhook \
         \"recorder.example.com\": failed to call webhook: Post \"https://localhost:{}/?timeout=30s\": EOF\n",
        hook.port
    );
    equal(&printed, &expected)?;
    let [first, new] = exactly(hook.calls())?;
    equal(&first.connection, &new.connection)
}

fn conflict(control_plane: &ControlPlane, namespace: &str) -> Result<()> {
    let (tell, told) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let (tell, released) = (Mutex::new(tell), Mutex::new(Some(released)));
    // The first call about the slow writer is held until the fast one is done.
    let hook = Hook::start(control_plane, move |call| {
        if by(call) == "slow"
            && let Some(released) = released.lock().take()
        {
            let _ = tell.lock().send(());
            let _ = released.recv();
        }
        Answer::Allow(Vec::new())
    })?;
    hook.register(control_plane, namespace, &json!({"timeoutSeconds": 30}))?;
    let created = create(control_plane, namespace, "contested")?.resource_version()?;
    let path = format!("{}/contested", things("v1", namespace));
    // An update begins with what the API server's own cache has, so that has to be there.
    until("the cache is filled", Duration::from_mins(1), || {
        let cached = send(control_plane, "GET", &format!("{path}?resourceVersion=0"), &Value::Null)?;
        Ok((cached.code == 200).then_some(()))
    })?;
    let (slow, fast) = thread::scope(|scope| {
        let slow = scope.spawn(|| send(control_plane, "PATCH", &path, &json!({"spec": {"by": "slow"}})));
        told.recv_timeout(Duration::from_mins(1))?;
        let fast = send(control_plane, "PATCH", &path, &json!({"spec": {"by": "fast"}}));
        release.send(())?;
        anyhow::Ok((slow.join().expect("no panic")?, fast?))
    })?;
    equal(&[slow.code, fast.code], &[200, 200])?;
    let fast = fast.resource_version()?;
    let old = |writer: &str| -> Vec<_> {
        let calls = hook.calls().into_iter().filter(|call| by(call) == writer);
        calls.map(|call| call.request["oldObject"]["metadata"]["resourceVersion"].clone()).collect()
    };
    equal(&old("fast"), &vec![json!(created)])?;
    equal(&old("slow"), &vec![json!(created), json!(fast)])?;
    let uids: Vec<_> =
        hook.calls().iter().filter(|call| by(call) == "slow").map(|call| call.request["uid"].clone()).collect();
    ensure!(uids[0] != uids[1], "the calls of one request share a uid");
    Ok(())
}

/// Who wrote the object of a call.
fn by(call: &Call) -> String {
    call.request["object"]["spec"]["by"].as_str().unwrap_or_default().to_owned()
}

fn warnings_that_fit(control_plane: &ControlPlane, namespace: &str) -> Result<()> {
    // Counted in characters, not bytes. 3 * 1365 = 4095.
    let long: Vec<_> = ["ä", "b", "c"].map(|character| character.repeat(1365)).to_vec();
    let mut given = long.clone();
    given.extend([long[1].clone(), "two\nlines".to_owned()]);
    let hook = Hook::start(control_plane, move |_| Answer::Allow(given.clone()))?;
    hook.register(control_plane, namespace, &Value::Null)?;
    // Neither the duplicate arrives nor the one with a control character.
    equal(&create(control_plane, namespace, "new")?.warnings(), &long)
}

fn warnings_that_do_not_fit(control_plane: &ControlPlane, namespace: &str) -> Result<()> {
    let given: Vec<_> = (0..20).map(|at| format!("{at:02}{}", "ä".repeat(298))).collect();
    // 16 * 256 = 4096.
    let cut: Vec<String> = given.iter().take(16).map(|text| text.chars().take(256).collect()).collect();
    let hook = Hook::start(control_plane, move |_| Answer::Allow(given.clone()))?;
    hook.register(control_plane, namespace, &Value::Null)?;
    equal(&create(control_plane, namespace, "new")?.warnings(), &cut)
}

fn converted(control_plane: &ControlPlane, namespace: &str) -> Result<()> {
    let hook = Hook::start(control_plane, |_| Answer::Allow(Vec::new()))?;
    let entry = |policy: &str| {
        let address = json!({"url": format!("https://localhost:{}/{policy}", hook.port)});
        let more = json!({"matchPolicy": policy, "name": format!("{}.example.com", policy.to_lowercase())});
        Hook::entry(control_plane, namespace, &address, &more)
    };
    hook.register_entries(control_plane, namespace, vec![entry("Equivalent")?, entry("Exact")?])?;
    let path = things("v1beta1", namespace);
    let created = send(control_plane, "POST", &path, &thing("v1beta1", "old"))?;
    let patched = send(control_plane, "PATCH", &format!("{path}/old"), &json!({"spec": {"by": "somebody"}}))?;
    equal(&[created.code, patched.code], &[201, 200])?;
    // "Exact" is not called at all.
    let seen = hook.calls().into_iter().map(|call| {
        let version = |object: &str| call.request[object]["apiVersion"].clone();
        json!([
            call.path,
            call.request["operation"],
            call.request["kind"]["version"],
            call.request["requestKind"]["version"],
            version("object"),
            version("oldObject"),
        ])
    });
    let (path, v1) = ("/Equivalent?timeout=10s", "facts.example.com/v1");
    equal(
        &seen.collect::<Vec<_>>(),
        &vec![json!([path, "CREATE", "v1", "v1beta1", v1, null]), json!([path, "UPDATE", "v1", "v1beta1", v1, v1])],
    )
}

fn external_name(control_plane: &ControlPlane, namespace: &str) -> Result<()> {
    let hook = Hook::start(control_plane, |_| Answer::Allow(Vec::new()))?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "recorder"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    let created = send(control_plane, "POST", &format!("/api/v1/namespaces/{namespace}/services"), &service)?;
    equal(&created.code, &201)?;
    let address = json!({
        "service": {"name": "recorder", "namespace": namespace, "port": hook.port, "path": "/by-service"},
    });
    let entry = Hook::entry(control_plane, namespace, &address, &Value::Null)?;
    hook.register_entries(control_plane, namespace, vec![entry])?;
    let created = create(control_plane, namespace, "new")?;
    equal(&created.code, &201)?;
    let [call] = exactly(hook.calls())?;
    equal(&call.path.as_str(), &"/by-service?timeout=10s")?;
    equal(&call.server_name, &Some(SERVICE.to_owned()))
}

fn idle_connections(control_plane: &ControlPlane, namespace: &str) -> Result<()> {
    let hook = Hook::start(control_plane, |_| Answer::Allow(Vec::new()))?;
    hook.register(control_plane, namespace, &Value::Null)?;
    for name in ["one", "two"] {
        equal(&create(control_plane, namespace, name)?.code, &201)?;
    }
    let [one, two] = exactly(hook.calls())?;
    equal(&one.connection, &two.connection)?;
    let closed = until("the API server closes the connection", 2 * KEEP_ALIVE, || {
        Ok(hook.closed().into_iter().find(|closed| closed.connection == two.connection))
    })?;
    let idle = closed.idle;
    ensure!((Duration::from_secs(89)..KEEP_ALIVE).contains(&idle), "closed after {idle:?}");
    equal(&create(control_plane, namespace, "three")?.code, &201)?;
    let [_, _, three] = exactly(hook.calls())?;
    ensure!(three.connection != two.connection, "a closed connection is used");
    Ok(())
}

fn many_connections(control_plane: &ControlPlane, namespace: &str) -> Result<()> {
    const AT_ONCE: usize = 30;
    let arrived = AtomicUsize::new(0);
    // No call is answered before all are here, so each has a connection of its own.
    let hook = Hook::start(control_plane, move |_| {
        arrived.fetch_add(1, Ordering::SeqCst);
        let all = || Ok((arrived.load(Ordering::SeqCst) >= AT_ONCE).then_some(()));
        match until("all calls", Duration::from_secs(25), all) {
            Ok(()) => Answer::Allow(Vec::new()),
            Err(_) => Answer::Close,
        }
    })?;
    hook.register(control_plane, namespace, &json!({"timeoutSeconds": 30}))?;
    thread::scope(|scope| {
        let create = |at| scope.spawn(move || create(control_plane, namespace, &format!("thing-{at}")));
        let created: Vec<_> = (0..AT_ONCE).map(create).collect();
        created.into_iter().try_for_each(|created| equal(&created.join().expect("no panic")?.code, &201))
    })?;
    let used: BTreeSet<_> = hook.calls().iter().map(|call| call.connection).collect();
    equal(&used.len(), &AT_ONCE)?;
    let too_many = AT_ONCE - 25;
    until(
        "what is too many is closed",
        Duration::from_mins(1),
        || Ok((hook.closed().len() >= too_many).then_some(())),
    )?;
    // The others stay, and serve.
    equal(&create(control_plane, namespace, "last")?.code, &201)?;
    let last = hook.calls().last().context("no call")?.connection;
    ensure!(used.contains(&last), "a new connection, although some are idle");
    equal(&hook.closed().len(), &too_many)
}

fn exactly<const N: usize>(calls: Vec<Call>) -> Result<[Call; N]> {
    calls.try_into().map_err(|calls: Vec<Call>| anyhow::anyhow!("{} calls, not {N}: {calls:#?}", calls.len()))
}

fn equal<T: PartialEq + std::fmt::Debug>(found: &T, expected: &T) -> Result<()> {
    ensure!(found == expected, "found    {found:?}\nexpected {expected:?}");
    Ok(())
}
