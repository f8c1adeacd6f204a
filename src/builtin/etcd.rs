//! `etcd`: its flags become the arguments of its unit.

use serde_json::json;

use super::static_pod::arguments;
use crate::finding::Outcome;
use crate::model::Model;
use crate::plugin::{Artifacts, Context, Plugin, Rendering};
use crate::value::Path;

/// The native part of the plugin.
#[derive(Debug)]
pub(super) struct Etcd;

impl Plugin for Etcd {
    fn render(&self, cx: &Context<'_>, model: &Model, _: &Artifacts) -> Outcome<Rendering> {
        let mut out = Rendering::default();
        let arguments: String =
            arguments(model, "etcd").iter().map(|a| format!(" \\\n  {a}")).collect();
        let content = format!(
            "[Unit]\nDescription=etcd, the state of Kubernetes cluster {}\nWants=network-online.target\n\
             Requires=kaws-etcd-prepare.service\n\
             After=network-online.target kaws-etcd-prepare.service\nStartLimitIntervalSec=0\n\n\
             [Service]\nType=notify\nUser=etcd\nEnvironmentFile=/run/kaws/etcd.env\n\
             LimitNOFILE=65536\nRestart=on-failure\nRestartSec=5\nNice=-5\n\
             TimeoutStartSec=infinity\n\
             IOSchedulingClass=best-effort\nNoNewPrivileges=yes\nProtectSystem=full\n\
             ExecStart=/opt/kaws/bin/etcd{arguments}\n\n[Install]\nWantedBy=kaws.target\n",
            cx.config.name
        );
        let fill = crate::model::has_placeholder(&content);
        for group in cx.nodes() {
            let unit = json!({"content": content, "fill": fill});
            out.contribution
                .put(cx.me.name.as_str(), ["machines", &group.key, "units", "etcd.service"], unit)
                .from(Path::of(["etcd", "flags"]));
        }
        Outcome::clean(out)
    }
}
