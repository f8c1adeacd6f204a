//! Checks of plugins: an object and its condition, a service, a release, an HTTP endpoint, a unit.

use std::collections::BTreeMap;

use serde_json::Value;

use super::seen::Seen;
use super::{Asked, Checked, WITHIN};
use crate::deploy::requests::{filled, seconds};
use crate::finding::{Finding, Severity};
use crate::model::Check;
use crate::port::{CloudError, Cluster, Outputs, Request, Task};

/// What came of looking: what was seen, and what is wrong; or why nobody could look.
type Looked = Result<(String, Vec<Finding>), String>;
type Form = BTreeMap<String, Value>;

/// Runs one check.
pub(super) async fn run(asked: &Asked<'_>, seen: &Seen, name: &str, check: &Check) -> Checked {
    let within = check.within.as_deref().map_or(WITHIN, seconds);
    let looked = if let Some(exec) = &check.exec {
        program(asked, seen, name, exec, within).await
    } else if asked.cloud.is_local() {
        Err("the local cloud has no machines".to_owned())
    } else if let Some(form) = &check.object {
        object(asked, seen, form).await
    } else if let Some(form) = &check.service {
        service(asked, seen, form).await
    } else if let Some(form) = &check.http {
        http(asked, seen, form).await
    } else if let Some(release) = &check.release {
        installed(seen, release)
    } else if let Some(unit) = &check.unit {
        Ok(unit_runs(asked, seen, unit))
    } else {
        Err("it says nothing to look at".to_owned())
    };
    let checked = match looked {
        Ok((note, findings)) => {
            let findings = findings.into_iter().map(|f| placed(asked, name, check, f)).collect();
            Checked::looked(name, note, findings)
        }
        Err(why) => Checked::unknown(name, why),
    };
    Checked { within, ..checked }
}

/// A finding with the check's place and the severity that its plugin gives it.
fn placed(asked: &Asked<'_>, name: &str, check: &Check, finding: Finding) -> Finding {
    let finding = match asked.origins.get(name) {
        Some(origin) => finding.at_with(origin, format!("as {name} asks")),
        None => finding,
    };
    let severity = if check.severity == "warning" { Severity::Warning } else { Severity::Fatal };
    Finding { severity, ..finding }
}

/// The plugin's own program says what does not hold.
async fn program(asked: &Asked<'_>, seen: &Seen, name: &str, exec: &Value, within: u64) -> Looked {
    let outputs = outputs(seen);
    let task = Task { name, stage: "validate", exec, within, outputs: &outputs };
    match asked.programs.run(task).await {
        Ok(findings) if findings.is_empty() => Ok(("holds".to_owned(), findings)),
        Ok(findings) => Ok((findings[0].message.clone(), findings)),
        Err(finding) => Ok(("its program gave no answer".to_owned(), vec![*finding])),
    }
}

fn outputs(seen: &Seen) -> Outputs {
    seen.stacks.iter().map(|(short, s)| (short.clone(), s.outputs.clone())).collect()
}

fn word<'a>(form: &'a Form, key: &str) -> &'a str {
    form.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The cluster, where it answers at all.
fn cluster<'a>(asked: &'a Asked<'_>, seen: &Seen) -> Result<&'a dyn Cluster, String> {
    seen.cluster.as_ref().map_err(Clone::clone)?;
    asked.cluster.clone()
}

async fn object(asked: &Asked<'_>, seen: &Seen, form: &Form) -> Looked {
    let (kind, namespace, name) = (word(form, "kind"), word(form, "namespace"), word(form, "name"));
    let condition = word(form, "condition");
    let said = cluster(asked, seen)?.status(kind, namespace, name).await;
    let full = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
    let wrong = |text: String| Finding::fatal("validate/object", text);
    let said = match said {
        Ok(said) => said,
        Err(error) if error.is_not_found() => {
            let text = format!("there is no {kind} {full}");
            return Ok(("there is none".to_owned(), vec![wrong(text).note(error.message)]));
        }
        Err(error) => return Err(error.to_string()),
    };
    let Some(status) = said else {
        let text = format!("there is no {kind} {full}");
        return Ok(("there is none".to_owned(), vec![wrong(text)]));
    };
    Ok(match unmet(kind, &status, condition) {
        None => (format!("{kind} {full}"), Vec::new()),
        Some(why) => {
            let what = if condition.is_empty() { "there" } else { condition };
            let finding = wrong(format!("{kind} {full} is not {what}")).note(why);
            (format!("{kind} {full} is not {what}"), vec![finding])
        }
    })
}

/// Returns why an object does not meet a condition. Daemon sets and stateful sets have no conditions, only counts.
pub(in crate::deploy) fn unmet(kind: &str, status: &Value, condition: &str) -> Option<String> {
    let count = |key: &str| status[key].as_u64().unwrap_or_default();
    if condition.is_empty() {
        return None;
    }
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(found) = conditions.iter().find(|c| c["type"] == condition) else {
        let (there, wanted) = match kind {
            "DaemonSet" => (count("numberAvailable"), count("desiredNumberScheduled")),
            "StatefulSet" => (count("availableReplicas"), count("replicas")),
            _ => return Some(format!("its status has no condition {condition}")),
        };
        let seen = status["observedGeneration"].as_u64() >= status["generation"].as_u64();
        return (there < wanted || !seen)
            .then(|| format!("{there} of {wanted} pods are available"));
    };
    let why = found["message"].as_str().or(found["reason"].as_str()).unwrap_or("it says no more");
    (found["status"] != "True").then(|| why.to_owned())
}

async fn service(asked: &Asked<'_>, seen: &Seen, form: &Form) -> Looked {
    let (namespace, name) = (word(form, "namespace"), word(form, "name"));
    let said = cluster(asked, seen)?.ready_addresses(namespace, name).await;
    let count = said.map_err(|error| error.to_string())?;
    let text = format!("no address of the service {namespace}/{name} is ready");
    let finding = (count == 0).then(|| Finding::fatal("validate/service", text));
    Ok((format!("{count} addresses"), finding.into_iter().collect()))
}

async fn http(asked: &Asked<'_>, seen: &Seen, form: &Form) -> Looked {
    let outputs = outputs(seen);
    let form: Form = form.iter().map(|(k, v)| (k.clone(), filled(v, &outputs))).collect();
    let (url, expect) = (word(&form, "url"), form.get("expect").and_then(Value::as_u64));
    let expect = expect.unwrap_or(200);
    let said = asked.web.send(&Request::get(url)).await;
    let why = match said {
        Ok(answer) if u64::from(answer.status) == expect => {
            return Ok((format!("answers {expect}"), Vec::new()));
        }
        Ok(answer) => format!("it answers {}, not {expect}", answer.status),
        Err(CloudError { message, .. }) => message,
    };
    let finding = Finding::fatal("validate/http", format!("{url} does not answer")).note(why);
    Ok(("does not answer".to_owned(), vec![finding]))
}

fn installed(seen: &Seen, release: &str) -> Looked {
    let known = seen.cluster.as_ref().map_err(Clone::clone)?;
    let wrong = super::nodes::release(known, "", release);
    Ok((format!("release {release}"), wrong.into_iter().collect()))
}

/// Every machine that has a unit says that it is active.
fn unit_runs(asked: &Asked<'_>, seen: &Seen, unit: &str) -> (String, Vec<Finding>) {
    let path = format!("etc/systemd/system/{unit}");
    let (mut all, mut findings) = (0, Vec::new());
    for group in &seen.groups {
        if !asked.tree.bundle(&group.folder).contains_key(&path) {
            continue;
        }
        let reports = seen.reports.get(&group.folder).map(Vec::as_slice).unwrap_or_default();
        for machine in group.scaling.machines.iter().filter(|m| !m.is_leaving()) {
            all += 1;
            let said = reports.iter().find(|r| r.instance == machine.id);
            let text = match said.and_then(|r| r.units.get(unit)).map(String::as_str) {
                Some("active") => continue,
                Some(state) => format!("{unit} on {} of {} is {state}", machine.id, group.folder),
                None => format!("{} of {} has not said how {unit} is", machine.id, group.folder),
            };
            let finding = Finding::fatal("validate/unit", text);
            let log = said.filter(|r| r.unit.as_deref() == Some(unit)).map(|r| r.log.join("\n"));
            findings.push(log.into_iter().fold(finding, Finding::note));
        }
    }
    (format!("active on {} of {all}", all - findings.len()), findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_has_no_conditions_is_available_by_its_counts() {
        let mut status = json!({"numberAvailable": 2, "desiredNumberScheduled": 3});
        assert_eq!(unmet("DaemonSet", &status, "Available").unwrap(), "2 of 3 pods are available");
        status["numberAvailable"] = json!(3);
        assert_eq!(unmet("DaemonSet", &status, "Available"), None);
        // What it has seen is older than what is wanted.
        status["generation"] = json!(4);
        status["observedGeneration"] = json!(3);
        assert!(unmet("DaemonSet", &status, "Available").is_some());
    }

    #[test]
    fn a_condition_says_why_it_is_not_met() {
        let status = json!({"conditions": [{"type": "Available", "status": "False", "message": "no quorum"}]});
        assert_eq!(unmet("Deployment", &status, "Available").unwrap(), "no quorum");
        assert_eq!(unmet("Deployment", &status, ""), None);
        assert!(unmet("Deployment", &status, "Ready").unwrap().contains("no condition Ready"));
    }
}
