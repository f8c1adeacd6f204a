//! Pins, resolved by whoever publishes the thing.

use kaws::pipeline::PinNeed;
use kaws::port::CloudError;
use kaws::resolve::resolve;

use crate::fake_cloud::FakeCloud;
use crate::fake_web::FakeWeb;

const HASH: &str = "46707a53209f826ad0f0d62371ac69cd00e78fd9a8176cf5f6f87f18f7f8b718";

fn resolved(name: &str, from: &str, web: &FakeWeb) -> Result<(String, String), CloudError> {
    let need = PinNeed { name: name.to_owned(), from: from.to_owned(), origin: None };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let pin = runtime.block_on(resolve(&need, &FakeCloud::default(), web))?;
    Ok((pin.value, pin.from))
}

#[test]
fn a_chart_by_the_index_of_its_repository() {
    let index = format!(
        "apiVersion: v1\nentries:\n  dex:\n    - {{version: 0.25.0, digest: {}}}\n    - {{version: v0.24.0, digest: {HASH}}}\n",
        "0".repeat(64)
    );
    let web = FakeWeb::default().page("https://charts.dexidp.io/index.yaml", 200, &[], &index);
    let from = "https://charts.dexidp.io#dex";
    let found = resolved("chart/dex/0.24.0", from, &web).unwrap();
    assert_eq!(found, (format!("sha256:{HASH}"), from.to_owned()));
    let missing = resolved("chart/dex/0.26.0", from, &web).unwrap_err();
    assert!(missing.message.contains("no digest for dex 0.26.0"), "{missing}");
}

#[test]
fn a_chart_in_a_registry_that_asks_for_a_token() {
    let url = "https://registry.acme.example/v2/charts/agent/manifests/1.2.3";
    let challenge = "Bearer realm=\"https://auth.acme.example/token\",service=\"registry\",scope=\"repository:charts/agent:pull\"";
    let digest = format!("sha256:{HASH}");
    let token =
        "https://auth.acme.example/token?service=registry&scope=repository:charts/agent:pull";
    let web = FakeWeb::default()
        .page(url, 401, &[("www-authenticate", challenge)], "")
        .page(token, 200, &[], "{\"token\": \"t0\"}")
        .page(&format!("{url} known"), 200, &[("docker-content-digest", &digest)], "");
    let from = "oci://registry.acme.example/charts#agent";
    assert_eq!(resolved("chart/agent/1.2.3", from, &web).unwrap().0, digest);
    let sent = web.sent();
    let (_, headers) = sent.last().unwrap();
    assert!(headers.contains(&("authorization".to_owned(), "Bearer t0".to_owned())), "{headers:?}");
}

#[test]
fn a_binary_by_the_checksum_that_is_published_beside_it() {
    let url = "https://dl.acme.example/v1/agent-linux-amd64";
    let beside = FakeWeb::default().page(&format!("{url}.sha256"), 200, &[], &format!("{HASH}\n"));
    assert_eq!(resolved("agent/1/amd64", url, &beside).unwrap().0, format!("sha256:{HASH}"));
    let list = format!("{}  agent-linux-arm64\n{HASH} *agent-linux-amd64\n", "1".repeat(64));
    let list = FakeWeb::default().page("https://dl.acme.example/v1/SHA256SUMS", 200, &[], &list);
    assert_eq!(resolved("agent/1/amd64", url, &list).unwrap().0, format!("sha256:{HASH}"));
}

#[test]
fn what_nobody_publishes_is_not_made_up() {
    let url = "https://dl.acme.example/v1/agent-linux-amd64";
    let nothing = resolved("agent/1/amd64", url, &FakeWeb::default()).unwrap_err();
    assert!(nothing.message.contains("write the entry by hand"), "{nothing}");
    let other = format!("{HASH}  something-else\n");
    let web = FakeWeb::default().page("https://dl.acme.example/v1/SHA256SUMS", 200, &[], &other);
    assert!(resolved("agent/1/amd64", url, &web).is_err());
    let broken = FakeWeb::default().page(&format!("{url}.sha256"), 500, &[], "");
    assert!(resolved("agent/1/amd64", url, &broken).unwrap_err().message.contains("500"));
}

#[test]
fn an_image_by_its_published_parameter() {
    let from =
        "ssm:/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id";
    let found = resolved("image/ubuntu-24.04/amd64", from, &FakeWeb::default()).unwrap();
    assert!(found.0.starts_with("ami-"), "{found:?}");
    assert_eq!(found.1, from);
}
