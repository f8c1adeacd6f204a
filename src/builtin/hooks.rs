//! `hooks`: what plugins want to run before and after a machine starts becomes units.
//!
//! Before the start it is a matter of order: systemd waits for a unit, or does not, and holds the kubelet back where one
//! fails. After it, `kaws-node ready` starts the units of `/etc/kaws/hooks.d` once everything else is healthy, and before
//! it says so. Not here: hooks where kaws runs, which the command line runs itself.

use std::fmt::Write as _;

use serde::de::DeserializeOwned;
use serde_json::json;

use crate::config::{Group, Role};
use crate::finding::{Finding, Findings, Outcome};
use crate::model::{Entity, HOST_EVENTS, HostHook, Model, NODE_EVENTS, NodeHook, has_placeholder};
use crate::name::{Name, did_you_mean};
use crate::plugin::program::Exec;
use crate::plugin::{Artifacts, Context, Contribution, Plugin, Rendering};
use crate::value::{Node, Path};

/// The native part of the plugin.
#[derive(Debug)]
pub(super) struct Hooks;

impl Plugin for Hooks {
    fn render(&self, cx: &Context<'_>, model: &Model, _: &Artifacts) -> Outcome<Rendering> {
        let (mut out, mut findings) = (Rendering::default(), Findings::new());
        for hook in Hook::<NodeHook>::all(model, &NODE_EVENTS) {
            match hook.text(cx) {
                Ok(text) => {
                    for group in hook.groups(cx, &mut findings) {
                        hook.put(group, &text, &mut out.contribution, &mut findings);
                    }
                }
                Err(finding) => findings.push(*finding),
            }
        }
        let of_events = Hook::<HostHook>::all(model, &HOST_EVENTS);
        findings.extend(of_events.filter_map(|hook| hook.check(cx).err()).map(|finding| *finding));
        Outcome { value: out, findings }
    }
}

/// One hook, of machines or of events.
struct Hook<'a, F> {
    event: &'a str,
    /// PLUGIN/NAME.
    name: &'a str,
    form: F,
    entity: &'a Entity,
}

impl<'a, F: DeserializeOwned> Hook<'a, F> {
    /// Returns the hooks of some events.
    fn all<'m: 'a>(
        model: &'m Model,
        events: &'a [&'a str],
    ) -> impl Iterator<Item = Self> + use<'a, 'm, F> {
        let of_event = |event: &&'a str| {
            let event = *event;
            model.entities(&["hooks", event]).filter_map(move |(name, entity)| {
                let form = serde_json::from_value(entity.body.to_value()).ok()?;
                Some(Self { event, name, form, entity })
            })
        };
        events.iter().flat_map(of_event)
    }
}

impl<F> Hook<'_, F> {
    fn wrong(&self, text: impl Into<String>) -> Finding {
        let path = Path::of(["hooks", self.event, self.name]);
        Finding::fatal("hooks/form", text).at(self.entity.body.key_origin()).about(path.to_string())
    }

    /// Checks its name, and that of what it could run, by the words in cluster.yaml, one is given.
    fn is_plain(&self, given: &[(&str, bool)]) -> Result<(), Box<Finding>> {
        let own = self.name.split_once('/').map_or("", |(_, own)| own);
        if Name::new(own).is_none() {
            let text = format!("`{}` is no name for a hook", own.escape_debug());
            return Err(Box::new(self.wrong(text).help("lower-case letters, digits and `-`")));
        }
        if given.iter().filter(|(_, given)| *given).count() != 1 {
            let text = format!("the hook {} runs nothing, or several things", self.name);
            let words: Vec<&str> = given.iter().map(|(word, _)| *word).collect();
            let help = format!("write one of {}", words.join(", "));
            return Err(Box::new(self.wrong(text).help(help)));
        }
        Ok(())
    }
}

impl Hook<'_, HostHook> {
    /// What is wrong with a hook where kaws runs: said when it is rendered, and not first when it is to be run.
    fn check(&self, cx: &Context<'_>) -> Result<(), Box<Finding>> {
        let form = &self.form;
        let script = form.content.is_some() || form.script.is_some();
        let exec = form.exec.as_ref();
        self.is_plain(&[
            ("command", form.command.is_some()),
            ("script", script),
            ("exec", exec.is_some()),
        ])?;
        let Some(exec) = exec else { return Ok(()) };
        let exec = serde_json::from_value::<Exec>(exec.clone()).map_err(|_| {
            let text = format!("the hook {} names no program", self.name);
            self.wrong(text).help("a file, as ./bin/x; or a list, as [python3, ./main.py]")
        })?;
        let plugin = self.name.split('/').next().unwrap_or_default();
        let plugin = cx.plugins.iter().find(|instance| instance.name.as_str() == plugin);
        let Some(package) = plugin.map(|instance| &instance.package) else { return Ok(()) };
        let missing = exec.files().into_iter().find(|file| !package.files.contains_key(file));
        missing.map_or(Ok(()), |file| {
            Err(Box::new(self.wrong(format!("{} has no file {file}", package.name))))
        })
    }
}

impl Hook<'_, NodeHook> {
    /// Returns the script that the unit runs.
    fn text(&self, cx: &Context<'_>) -> Result<String, Box<Finding>> {
        let form = &self.form;
        self.is_plain(&[
            ("command", form.command.is_some()),
            ("script", form.script.is_some()),
            ("file or template", form.content.is_some()),
            ("container", form.container.is_some()),
        ])?;
        if let Some(command) = &form.command {
            return Ok(format!("#!/bin/sh\n{}\n", command.trim_end()));
        }
        if let Some(container) = &form.container {
            return Ok(container_script(&self.container(), &container.image, &container.command));
        }
        let text = match (&form.content, &form.script) {
            (Some(content), _) => content.as_str(),
            (None, script) => {
                let from = script.as_deref().unwrap_or_default();
                let name = format!("{}/{}", self.event, self.name);
                let at = self.entity.body.get("script").unwrap_or(&self.entity.body);
                let found = cx.lock.script(&name, from, form.sha256.as_deref());
                found.map_err(|none| Box::new(none.at(&at.origin)))?
            }
        };
        Ok(if text.starts_with("#!") { text.to_owned() } else { format!("#!/bin/sh\n{text}") })
    }

    /// Returns the groups it is for: those it names, or those its plugin is on.
    fn groups<'c>(&self, cx: &Context<'c>, findings: &mut Findings) -> Vec<&'c Group> {
        let owners = self.entity.owner_names();
        let on = cx.plugins.iter().filter(|plugin| owners.contains(&plugin.name.as_str()));
        let on: Vec<&str> = on.flat_map(|plugin| plugin.nodes.iter().map(String::as_str)).collect();
        if self.form.nodes.is_empty() {
            if on.is_empty() {
                let text = format!("the hook {} is for no machines", self.name);
                let help = "say which in the plugin's manifest (nodes: [worker]), or in the hook";
                findings.push(self.wrong(text).help(help));
            }
            return cx.groups.iter().filter(|group| on.contains(&group.key.as_str())).collect();
        }
        let mut chosen = Vec::new();
        for word in &self.form.nodes {
            let fits = |group: &&Group| group.key == *word || group.role.as_ref() == word;
            let found: Vec<&Group> = cx.groups.iter().filter(fits).collect();
            if found.is_empty() {
                let names = cx.groups.iter().map(|g| g.key.as_str());
                let all: Vec<&str> = names.chain(["etcd", "controller", "worker"]).collect();
                let finding = self.wrong(format!("there are no machines `{word}`"));
                findings.push(match did_you_mean(word, all.iter().copied()) {
                    Some(near) => finding.help(format!("did you mean `{near}`?")),
                    None => finding.help(format!("there are: {}", all.join(", "))),
                });
            }
            chosen.extend(found);
        }
        chosen.sort_by(|a, b| a.key.cmp(&b.key));
        chosen.dedup_by(|a, b| a.key == b.key);
        // Whoever writes cluster.yaml says where a plugin is on; a hook leads it nowhere else.
        let everywhere = owners.contains(&"cluster");
        if let Some(group) = chosen.iter().find(|g| !everywhere && !on.contains(&g.key.as_str())) {
            let text = format!(
                "the hook {} is for {}, and its plugin is not on there",
                self.name,
                group.label()
            );
            findings.push(self.wrong(text).help("the manifest's `nodes`, and nodePools and roles in cluster.yaml, say where it is on"));
        }
        chosen.retain(|group| everywhere || on.contains(&group.key.as_str()));
        chosen
    }

    /// The container's id: containerd takes no long ones.
    fn container(&self) -> String {
        format!("hook-{}", &crate::value::sha256(self.unit_name().as_bytes())[..16])
    }

    fn unit_name(&self) -> String {
        // Names of plugins and hooks have no dot.
        let when = if self.is_before() { "before" } else { "after" };
        format!("hook-{when}-{}", self.name.replace('/', "."))
    }

    /// Whether the node fills something in.
    fn fills(&self) -> bool {
        let script = self.form.script.is_some();
        (self.form.fill && !script) || self.form.command.as_deref().is_some_and(has_placeholder)
    }

    fn is_before(&self) -> bool {
        self.event == NODE_EVENTS[0]
    }

    fn put(&self, group: &Group, text: &str, out: &mut Contribution, findings: &mut Findings) {
        if self.form.container.is_some() && group.role == Role::Etcd {
            let text =
                format!("the hook {} is a container, and machines of etcd run none", self.name);
            findings.push(self.wrong(text).help("nodes: [controller, worker]"));
            return;
        }
        let from = Path::of(["hooks", self.event, self.name]);
        let unit = format!("{}.service", self.unit_name());
        let key = group.key.as_str();
        let origin = &self.entity.body.origin;
        let mut put = |part: &str, name: &str, body: serde_json::Value| {
            let path = Path::of(["machines", key, part, name]);
            out.put_node(path, Node::from_value(body, origin)).from(from.clone());
        };
        let file = json!({"content": text, "mode": "0700", "fill": self.fills()});
        put("files", &format!("/opt/kaws/hooks/{}", self.unit_name()), file);
        let behavior = self.form.behavior;
        let main = if group.role == Role::Etcd { "etcd.service" } else { "kubelet.service" };
        let required = self.is_before() && behavior.enforces();
        put(
            "units",
            &unit,
            json!({"content": self.unit(main), "enabled": self.is_before(), "required": required}),
        );
        if required && behavior.waits() {
            let text = format!("[Unit]\nRequires={unit}\nAfter={unit}\n");
            put(
                "dropins",
                &format!("{main}/20-{}.conf", self.unit_name()),
                json!({ "content": text }),
            );
        }
        if !self.is_before() {
            let line = format!(
                "name={unit}\nwait={}\nenforce={}\n",
                behavior.waits(),
                behavior.enforces()
            );
            put(
                "files",
                &format!("/etc/kaws/hooks.d/{}", self.unit_name()),
                json!({ "content": line }),
            );
        }
    }

    fn unit(&self, main: &str) -> String {
        let when = if self.is_before() {
            "before this machine starts"
        } else {
            "once this machine is healthy"
        };
        let (plugin, _) = self.name.split_once('/').unwrap_or((self.name, ""));
        let name = self.unit_name();
        let mut after = "network-online.target kaws-secrets.service kaws-assets.service".to_owned();
        let mut unit =
            format!("[Unit]\nDescription=Hook {} {when}\nWants=network-online.target\n", self.name);
        if self.form.container.is_some() {
            after.push_str(" containerd.service");
            unit.push_str("Requires=containerd.service\n");
        }
        if !self.is_before() {
            let _ = write!(after, " {main}");
        }
        let _ = writeln!(unit, "After={after}");
        if self.is_before() && self.form.behavior.waits() {
            let _ = writeln!(unit, "Before={main}");
        }
        let _ = write!(
            unit,
            "\n[Service]\nType=oneshot\nRemainAfterExit=yes\nEnvironmentFile=/etc/kaws/node.env\n\
             Environment=KAWS_COMMAND=EXEC KAWS_EVENT={} KAWS_PLUGIN={plugin}\n",
            self.event
        );
        let script = format!("/opt/kaws/hooks/{name}");
        if self.form.once {
            // Not a condition of the unit: where that does not hold, the unit does not count as active.
            let done = format!("/var/lib/kaws/hooks/{name}");
            let _ = write!(
                unit,
                "ExecStart=/bin/sh -c 'test -e {done} || {script}'\n\
                 ExecStartPost=/bin/mkdir -p /var/lib/kaws/hooks\nExecStartPost=/bin/touch {done}\n"
            );
        } else {
            let _ = writeln!(unit, "ExecStart={script}");
        }
        if self.form.container.is_some() {
            // What is ended is only who waits for it.
            for what in ["tasks kill --signal SIGKILL", "tasks delete", "containers delete"] {
                let id = self.container();
                let _ = writeln!(
                    unit,
                    "ExecStopPost=-/opt/kaws/bin/ctr --namespace k8s.io {what} {id}"
                );
            }
        }
        let _ = writeln!(unit, "TimeoutStartSec={}", span(&self.form.timeout));
        if self.is_before() {
            unit.push_str("\n[Install]\nWantedBy=kaws.target\n");
        }
        unit
    }
}

/// A duration as systemd spells it: `m` is minutes for both, and written out for readers.
fn span(duration: &str) -> String {
    duration
        .strip_suffix('m')
        .map_or_else(|| duration.to_owned(), |minutes| format!("{minutes}min"))
}

/// A container has the machine's network, and its files under /host.
fn container_script(name: &str, image: &str, command: &[String]) -> String {
    let words: String = command.iter().map(|word| format!(" {}", quoted(word))).collect();
    format!(
        "#!/bin/sh\nset -eu\nimage={}\n\
         /opt/kaws/bin/ctr --namespace k8s.io images pull \"$image\" >/dev/null\n\
         /opt/kaws/bin/ctr --namespace k8s.io containers delete {name} 2>/dev/null || true\n\
         exec /opt/kaws/bin/ctr --namespace k8s.io run --rm --net-host \\\n  \
         --mount type=bind,src=/,dst=/host,options=rbind:rw \\\n  \
         --env KAWS_EVENT=\"$KAWS_EVENT\" --env KAWS_CLUSTER=\"$KAWS_CLUSTER\" --env KAWS_GROUP=\"$KAWS_GROUP\" \\\n  \
         \"$image\" {name}{words}\n",
        quoted(image)
    )
}

/// A word of the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Behavior;

    #[test]
    fn words_of_the_shell_are_quoted() {
        assert_eq!(quoted("it's $HOME"), "'it'\\''s $HOME'");
        assert_eq!((span("5m").as_str(), span("90s").as_str()), ("5min", "90s"));
        assert!(Behavior::SyncEnforce.waits() && Behavior::AsyncEnforce.enforces());
    }
}
