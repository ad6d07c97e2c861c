//! The webhook configurations that the API server has.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::fleet::World;

const GROUP_VERSION: &str = "admissionregistration.k8s.io/v1";
const KINDS: [&str; 2] = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];

/// All of them, as they are created again.
pub fn all(world: &World) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for kind in KINDS {
        let list = world.object(&format!("/apis/{GROUP_VERSION}/{}s", kind.to_ascii_lowercase()))?;
        for item in list["items"].as_array().context("a list without items")? {
            all.push(json!({
                "apiVersion": GROUP_VERSION, "kind": kind, "metadata": {"name": item["metadata"]["name"]},
                "webhooks": item["webhooks"],
            }));
        }
    }
    Ok(all)
}

/// Deletes those of them that are there.
pub fn delete(world: &World, configurations: &[Value]) -> Result<()> {
    for configuration in configurations {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = text(&configuration["kind"]).to_ascii_lowercase();
        let path = format!("/apis/{GROUP_VERSION}/{kind}s/{}", text(&configuration["metadata"]["name"]));
        let answer = world.runtime.block_on(world.api.delete(&path))?;
        if answer.code != 404 {
            answer.object()?;
        }
    }
    Ok(())
}

/// Creates all of them.
pub fn create(world: &World, configurations: &[Value]) -> Result<()> {
    for configuration in configurations {
        world.runtime.block_on(world.api.create(configuration))?.object()?;
    }
    Ok(())
}
