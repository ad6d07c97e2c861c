//! Installs webhook-config/ as it is. Only the addresses of the webhooks are replaced, since no Pods run here.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::control_plane::ControlPlane;

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/webhook-config");

/// Applies everything but the webhook configuration: what a replica needs to start.
pub fn namespace_and_rights(control_plane: &ControlPlane) -> Result<()> {
    let (_, others) = manifests()?;
    for file in others {
        control_plane.kubectl(&["apply", "-f", &file.display().to_string()])?;
    }
    Ok(())
}

/// Applies the webhook configuration once for each of `replicas`.
pub fn webhook_configurations(control_plane: &ControlPlane, replicas: &[Replica]) -> Result<()> {
    let (file, _) = manifests()?;
    let shipped: Value = serde_saphyr::from_str(&fs::read_to_string(&file)?)
        .with_context(|| format!("failed to read {}", file.display()))?;
    let ca = control_plane.ca_bundle()?;
    let items: Result<Vec<_>> = replicas.iter().map(|replica| replica.configuration(&shipped, &ca)).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items?});
    let path = control_plane.directory.join("webhook-configurations.json");
    fs::write(&path, list.to_string())?;
    control_plane.kubectl(&["apply", "-f", &path.display().to_string()])?;
    Ok(())
}

/// A replica that the API server calls.
pub struct Replica {
    /// Where it listens.
    pub port: u16,
    /// What the API server asks it.
    pub role: Role,
}

/// What a replica is asked.
#[derive(Clone, Copy)]
pub enum Role {
    /// What webhook-config says.
    Guard,
    /// The same, but in namespaces with the label `e2e: unsynced` alone.
    Unsynced,
    /// What webhook-config says, but for a user and in namespaces with a label.
    GuardExcept {
        /// Who is not asked about.
        user: &'static str,
        /// The label of the namespaces that are left alone.
        label: &'static str,
    },
    /// Everything that the rules match, without the conditions that keep requests back, in namespaces with a label. It
    /// decides like any other, so a write that it would deny fails.
    Witness {
        /// Who is not asked about.
        user: &'static str,
        /// The label of the namespaces that it is asked about.
        label: &'static str,
    },
    /// Everything that the rules match: without the conditions. It never decides.
    Shadow,
}

impl Replica {
    fn configuration(&self, shipped: &Value, ca: &str) -> Result<Value> {
        let mut configuration = shipped.clone();
        let webhooks = configuration["webhooks"].as_array_mut().context("a configuration without webhooks")?;
        for webhook in webhooks {
            let service = &webhook["clientConfig"]["service"];
            let path = service["path"].as_str().context("a webhook without a path")?;
            let url = format!("https://127.0.0.1:{}{path}", self.port);
            webhook["clientConfig"] = json!({"url": url, "caBundle": ca});
            match self.role {
                Role::Guard => {}
                Role::GuardExcept { user, label } => {
                    webhook["namespaceSelector"] =
                        json!({"matchExpressions": [{"key": label, "operator": "DoesNotExist"}]});
                    let conditions = webhook["matchConditions"].as_array_mut();
                    conditions.context("a webhook without conditions")?.push(all_but(user));
                }
                Role::Witness { user, label } => {
                    webhook["namespaceSelector"] = json!({"matchExpressions": [{"key": label, "operator": "Exists"}]});
                    webhook["matchConditions"] = json!([all_but(user)]);
                }
                Role::Unsynced => webhook["namespaceSelector"] = json!({"matchLabels": {"e2e": "unsynced"}}),
                Role::Shadow => {
                    webhook["failurePolicy"] = json!("Ignore");
                    let webhook = webhook.as_object_mut().context("a webhook is an object")?;
                    ensure!(webhook.remove("matchConditions").is_some(), "a webhook without conditions");
                }
            }
        }
        let suffix = match self.role {
            Role::Guard | Role::GuardExcept { .. } => return Ok(configuration),
            Role::Unsynced => "unsynced",
            Role::Witness { .. } => "witness",
            Role::Shadow => "shadow",
        };
        configuration["metadata"]["name"] = json!(format!("capi-version-guard-{suffix}"));
        Ok(configuration)
    }
}

/// The condition that a user is not asked about.
fn all_but(user: &str) -> Value {
    json!({"name": "not-the-exempt-user", "expression": format!("request.userInfo.username != '{user}'")})
}

/// The file of the webhook configuration, and the others in the order in which kubectl takes them.
fn manifests() -> Result<(PathBuf, Vec<PathBuf>)> {
    let files = fs::read_dir(DIRECTORY).with_context(|| format!("failed to read {DIRECTORY}"))?;
    let mut files: Vec<_> = files.map(|file| Ok(file?.path())).collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let is_configuration = |file: &PathBuf| {
        file.file_name().is_some_and(|name| Path::new(name).ends_with("07-validating-webhook-configuration.yaml"))
    };
    let at = files.iter().position(is_configuration).context("webhook-config has no webhook configuration")?;
    let configuration = files.remove(at);
    Ok((configuration, files))
}
