//! What a machine needs to come up, and to be part of the cluster: one finding for each line of the list.
//!
//! Not here: what a component refuses (`flags`, `combinations`), and AWS's limits (`limits`).

mod addons;
mod entry;
mod files;
mod keys;
mod kubelet;
mod machines;
mod settings;

use serde_json::Value;

use crate::config::Role;
use crate::finding::Findings;
use crate::model::Model;
use crate::plugin::Context;

/// Checks everything.
pub(in crate::builtin) fn boot(cx: &Context<'_>, model: &Model) -> Findings {
    let mut findings = Findings::new();
    keys::keys(cx, model, &mut findings);
    let names = keys::names_of_the_api(cx, model);
    for group in cx.groups {
        if group.role != Role::Etcd {
            kubelet::kubelet(cx, model, group, &mut findings);
        }
        files::files(cx, model, group, &names, &mut findings);
    }
    settings::settings(cx, model, &mut findings);
    entry::ports(model, &mut findings);
    entry::targets(model, &mut findings);
    entry::ways_in(cx, model, &mut findings);
    addons::bootstrap(model, &mut findings);
    addons::addons(cx, model, &mut findings);
    machines::ways_out(cx, &mut findings);
    machines::hooks(model, &mut findings);
    machines::signals(cx, model, &mut findings);
    machines::security_groups(cx, model, &mut findings);
    machines::subnets(model, &mut findings);
    machines::credentials(cx, model, &mut findings);
    findings
}

fn network_host(cx: &Context<'_>, at: usize) -> String {
    let net = cx.config.network.service_cidr.parse::<ipnet::IpNet>().ok();
    // The first host is the first address behind the network's own.
    net.and_then(|n| n.hosts().nth(at - 1)).map(|a| a.to_string()).unwrap_or_default()
}

/// The stack and resource that a value names: `!Ref`, `!GetAtt`, or an output of another stack.
fn named(value: &Value, stack: &str) -> (String, String) {
    if let Some((other, output)) = value["$output"].as_str().and_then(|o| o.split_once('.')) {
        return (other.to_owned(), output.to_owned());
    }
    let id = value["Fn::GetAtt"][0].as_str().or_else(|| value["Ref"].as_str());
    (stack.to_owned(), id.unwrap_or_default().to_owned())
}
