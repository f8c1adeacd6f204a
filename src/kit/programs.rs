//! What is looked at in every case of a program, without anybody asking: it answers the same wherever it runs, and when
//! it sees its own answer; and what it declares, it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::Coverage;
use crate::run::Run;
use crate::runtime::{Recorded, Runtime};
use crate::value::Path;

/// Returns how a program answers differently to the same question.
pub(super) fn differ(calls: &[Recorded], runtime: Option<&Arc<Runtime>>) -> Option<String> {
    calls.iter().zip(std::iter::repeat(runtime?)).find_map(|(call, runtime)| {
        let elsewhere = [
            ("LANG", "C"),
            ("LC_ALL", "C"),
            ("TZ", "Pacific/Kiritimati"),
            ("USER", "somebody-else"),
        ];
        let elsewhere: BTreeMap<String, String> =
            elsewhere.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let changed = answers(call, runtime, &call.request, elsewhere);
        let said = |text: &str, changed: String| format!("{}: {text}\n\n{changed}", call.stage);
        if let Some(changed) = changed {
            let text =
                "it answers otherwise with another home, time zone and language, or each time";
            return Some(said(text, changed));
        }
        let seen = with_own_answer(call)?;
        let changed = answers(call, runtime, &seen, BTreeMap::new())?;
        Some(said("it answers otherwise when the model already holds what it adds", changed))
    })
}

/// Asks once more; returns how the answer differs, if it does.
fn answers(
    call: &Recorded,
    runtime: &Runtime,
    request: &[u8],
    environment: BTreeMap<String, String>,
) -> Option<String> {
    let pretty = |answer: &[u8]| {
        let value: Value = serde_json::from_slice(answer).unwrap_or_default();
        serde_json::to_string_pretty(&value).unwrap_or_default()
    };
    let (before, now) = match runtime.ask_again(call, request, environment) {
        Ok(ran) => (pretty(&call.answer), pretty(&ran.answer)),
        Err(failure) => (String::new(), failure.to_string()),
    };
    (before != now).then(|| super::diff::lines(&before, &now))
}

/// Returns the request with the program's own contribution in its model.
fn with_own_answer(call: &Recorded) -> Option<Vec<u8>> {
    let mut request: Value = serde_json::from_slice(&call.request).ok()?;
    let answer: Value = serde_json::from_slice(&call.answer).ok()?;
    lay(request.get_mut("model")?, answer.get("contribution")?);
    serde_json::to_vec(&request).ok()
}

fn lay(model: &mut Value, part: &Value) {
    match (model, part) {
        (Value::Object(model), Value::Object(part)) => {
            for (key, value) in part {
                lay(model.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (model, part) => *model = part.clone(),
    }
}

/// Takes out of `reads` what a program does need: it answers otherwise without it.
pub(super) fn unread(
    calls: &[Recorded],
    runtime: Option<&Arc<Runtime>>,
    reads: &mut BTreeSet<String>,
) {
    let Some(runtime) = runtime else { return };
    reads.retain(|read| {
        let Ok(path) = Path::parse(read) else { return true };
        !calls.iter().any(|call| {
            let without = without(call, &path);
            without
                .is_some_and(|request| answers(call, runtime, &request, BTreeMap::new()).is_some())
        })
    });
}

/// Returns the request without a part of what it tells.
fn without(call: &Recorded, path: &Path) -> Option<Vec<u8>> {
    let mut request: Value = serde_json::from_slice(&call.request).ok()?;
    let outside = ["plugins", "artifacts"].contains(&path.0[0].as_str());
    let (last, before) = path.0.split_last()?;
    let mut at = if outside { &mut request } else { request.get_mut("model")? };
    for segment in before {
        at = at.get_mut(segment)?;
    }
    at.as_object_mut()?.remove(last)?;
    serde_json::to_vec(&request).ok()
}

/// Takes out of what is not covered where the plugin has written in this run.
pub(super) fn covered(run: &Run, name: &str, coverage: &mut Coverage) {
    if coverage.writes.is_empty() {
        return;
    }
    let mut written: Vec<Vec<String>> = Vec::new();
    run.rendered.model.walk(&[], &mut |path, entity| {
        if entity.owner_names().contains(&name) {
            written.push(path.iter().map(|s| (*s).to_owned()).collect());
        }
    });
    coverage.writes.retain(|declared| !written.iter().any(|path| covers(&declared.0, path)));
}

fn covers(declared: &[String], path: &[String]) -> bool {
    declared.len() <= path.len()
        && declared.iter().zip(path).enumerate().all(|(i, (declared, own))| {
            declared == own || (i == 1 && ["nodes", "worker"].contains(&declared.as_str()))
        })
}
