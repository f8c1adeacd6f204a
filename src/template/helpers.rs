//! The helpers: pure functions, in one table with their documentation and an example that a test runs.

use std::net::Ipv4Addr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ipnet::Ipv4Net;
use serde_json::Value;

use crate::origin::{Origin, SourceFile};
use crate::value::{Node, Style, sha256, write};

/// What a helper says about its arguments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{helper}: {reason}")]
pub struct HelperError {
    /// The helper.
    pub helper: String,
    /// What is wrong.
    pub reason: String,
}

/// One helper.
#[derive(Clone, Copy)]
pub struct Helper {
    /// Its name.
    pub name: &'static str,
    /// Its arguments, as the reference page shows them.
    pub arguments: &'static str,
    /// What it returns.
    pub doc: &'static str,
    /// An example and its result as JSON; a test runs it.
    pub example: (&'static str, &'static str),
    /// The least and the most arguments.
    pub arity: (usize, usize),
    run: fn(&[Value]) -> Result<Value, String>,
}

const fn helper(
    name: &'static str,
    arguments: &'static str,
    doc: &'static str,
    example: (&'static str, &'static str),
    arity: (usize, usize),
    run: fn(&[Value]) -> Result<Value, String>,
) -> Helper {
    Helper { name, arguments, doc, example, arity, run }
}

const MANY: usize = 64;

/// Every helper, sorted. `secret`, `output` and `node` leave a placeholder that nodes fill in.
pub const HELPERS: &[Helper] = &[
    helper("add", "A B", "The sum of two numbers.", ("add 2 3", "5"), (2, 2), |a| {
        number2(a, i64::checked_add)
    }),
    helper("and", "A B …", "Whether all are true.", ("and true 1", "true"), (1, MANY), |a| {
        Ok(a.iter().all(truthy).into())
    }),
    helper(
        "arn",
        "PARTITION SERVICE REGION ACCOUNT RESOURCE",
        "An ARN.",
        (r#"arn "aws" "s3" "" "" "bucket/*""#, r#""arn:aws:s3:::bucket/*""#),
        (5, 5),
        |a| {
            Ok(format!("arn:{}", a.iter().map(text).collect::<Result<Vec<_>, _>>()?.join(":"))
                .into())
        },
    ),
    helper(
        "base64",
        "TEXT",
        "The text in Base64.",
        (r#"base64 "kaws""#, r#""a2F3cw==""#),
        (1, 1),
        |a| Ok(STANDARD.encode(text(&a[0])?).into()),
    ),
    helper(
        "cidrHost",
        "CIDR N",
        "The N-th address of a network; negative counts from the end.",
        (r#"cidrHost "10.3.0.0/16" 10"#, r#""10.3.0.10""#),
        (2, 2),
        cidr_host,
    ),
    helper(
        "cidrNetmask",
        "CIDR",
        "The netmask of a network.",
        (r#"cidrNetmask "10.0.0.0/20""#, r#""255.255.240.0""#),
        (1, 1),
        |a| Ok(cidr(&a[0])?.netmask().to_string().into()),
    ),
    helper(
        "cidrSubnet",
        "CIDR BITS N",
        "The N-th subnet with BITS more bits of prefix.",
        (r#"cidrSubnet "10.0.0.0/16" 4 2"#, r#""10.0.32.0/20""#),
        (3, 3),
        cidr_subnet,
    ),
    helper(
        "concat",
        "TEXT …",
        "The texts, one behind the other.",
        (r#"concat "a" 1"#, r#""a1""#),
        (1, MANY),
        |a| Ok(a.iter().map(text).collect::<Result<String, _>>()?.into()),
    ),
    helper(
        "days",
        "DURATION",
        "The days of a duration, rounded up.",
        (r#"days "36h""#, "2"),
        (1, 1),
        |a| {
            let duration = crate::config::Duration(text(&a[0])?);
            Ok(duration.seconds().div_ceil(86_400).into())
        },
    ),
    helper(
        "default",
        "VALUE OTHER",
        "The value, or the other one where it is null.",
        (r#"default null "x""#, r#""x""#),
        (2, 2),
        |a| Ok(if a[0].is_null() { a[1].clone() } else { a[0].clone() }),
    ),
    helper("eq", "A B", "Whether two values are equal.", (r#"eq "a" "a""#, "true"), (2, 2), |a| {
        Ok((a[0] == a[1]).into())
    }),
    helper(
        "gt",
        "A B",
        "Whether a number is larger than another.",
        ("gt 2 1", "true"),
        (2, 2),
        |a| Ok((int(&a[0])? > int(&a[1])?).into()),
    ),
    helper(
        "has",
        "LIST-OR-MAP VALUE",
        "Whether a list has the item, a map the key, or a text the part.",
        (r#"has "abc" "b""#, "true"),
        (2, 2),
        has,
    ),
    helper(
        "indent",
        "N TEXT",
        "The text with N spaces before every line but the first.",
        (r#"indent 2 "a""#, r#""a""#),
        (2, 2),
        |a| {
            let width = usize::try_from(int(&a[0])?)
                .ok()
                .filter(|n| *n <= 200)
                .ok_or("N is from 0 to 200")?;
            let pad = " ".repeat(width);
            Ok(text(&a[1])?.trim_end().replace('\n', &format!("\n{pad}")).into())
        },
    ),
    helper(
        "join",
        "SEPARATOR LIST",
        "The items as one text.",
        (r#"join "," (split "," "a,b")"#, r#""a,b""#),
        (2, 2),
        |a| {
            Ok(list(&a[1])?
                .iter()
                .map(text)
                .collect::<Result<Vec<_>, _>>()?
                .join(&text(&a[0])?)
                .into())
        },
    ),
    helper("keys", "MAP", "The keys of a map, sorted.", ("keys cluster", "[]"), (1, 1), |a| {
        let map = a[0].as_object().ok_or("a map is needed")?;
        Ok(map.keys().cloned().collect::<Vec<_>>().into())
    }),
    helper(
        "length",
        "VALUE",
        "How many items, keys or characters.",
        (r#"length "abc""#, "3"),
        (1, 1),
        |a| {
            Ok(match &a[0] {
                Value::Array(items) => items.len(),
                Value::Object(map) => map.len(),
                other => text(other)?.chars().count(),
            }
            .into())
        },
    ),
    helper("lower", "TEXT", "The text in lower case.", (r#"lower "Ab""#, r#""ab""#), (1, 1), |a| {
        Ok(text(&a[0])?.to_lowercase().into())
    }),
    helper(
        "lt",
        "A B",
        "Whether a number is smaller than another.",
        ("lt 2 1", "false"),
        (2, 2),
        |a| Ok((int(&a[0])? < int(&a[1])?).into()),
    ),
    helper("ne", "A B", "Whether two values differ.", (r#"ne "a" "b""#, "true"), (2, 2), |a| {
        Ok((a[0] != a[1]).into())
    }),
    helper(
        "node",
        "NAME",
        "What the node knows of itself: group, pool, instance-id, zone, region, private-ip, member.",
        (r#"node "zone""#, r#""@{node zone}""#),
        (1, 1),
        |a| {
            let name = text(&a[0])?;
            if NODE_FACTS.contains(&name.as_str()) {
                Ok(format!("@{{node {name}}}").into())
            } else {
                Err(format!("a node knows: {}", NODE_FACTS.join(", ")))
            }
        },
    ),
    helper(
        "not",
        "VALUE",
        "Whether a value is false, 0, empty or null.",
        ("not false", "true"),
        (1, 1),
        |a| Ok((!truthy(&a[0])).into()),
    ),
    helper("or", "A B …", "Whether one is true.", ("or false 1", "true"), (1, MANY), |a| {
        Ok(a.iter().any(truthy).into())
    }),
    helper(
        "output",
        "STACK.NAME",
        "An output of a stack, filled in on the node.",
        (r#"output "network.VpcId""#, r#""@{output network.VpcId}""#),
        (1, 1),
        |a| Ok(format!("@{{output {}}}", text(&a[0])?).into()),
    ),
    helper(
        "quote",
        "TEXT",
        "The text as a JSON string, quotes included; right for YAML and TOML too.",
        (r#"quote "a\"b""#, r#""\"a\\\"b\"""#),
        (1, 1),
        |a| Ok(Value::String(text(&a[0])?).to_string().into()),
    ),
    helper(
        "replace",
        "FROM TO TEXT",
        "The text with every FROM replaced.",
        (r#"replace "." "-" "a.b""#, r#""a-b""#),
        (3, 3),
        |a| Ok(text(&a[2])?.replace(&text(&a[0])?, &text(&a[1])?).into()),
    ),
    helper(
        "secret",
        "NAME",
        "A secret of this plugin, filled in on the node.",
        (r#"secret "token""#, r#""@{secret token}""#),
        (1, 1),
        |a| Ok(format!("@{{secret {}}}", text(&a[0])?).into()),
    ),
    helper(
        "sha256",
        "TEXT",
        "The SHA-256 of a text, in hexadecimal.",
        (r#"sha256 """#, r#""e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855""#),
        (1, 1),
        |a| Ok(sha256(text(&a[0])?.as_bytes()).into()),
    ),
    helper(
        "split",
        "SEPARATOR TEXT",
        "The parts of a text.",
        (r#"split "," "a,b""#, r#"["a","b"]"#),
        (2, 2),
        |a| Ok(text(&a[1])?.split(&text(&a[0])?).map(str::to_owned).collect::<Vec<_>>().into()),
    ),
    helper("sub", "A B", "The difference of two numbers.", ("sub 5 2", "3"), (2, 2), |a| {
        number2(a, i64::checked_sub)
    }),
    helper(
        "toJson",
        "VALUE",
        "The value as JSON in one line, keys sorted.",
        (r#"toJson (split "," "a")"#, r#""[\"a\"]""#),
        (1, 1),
        |a| Ok(a[0].to_string().into()),
    ),
    helper(
        "toYaml",
        "VALUE",
        "The value as YAML, without the last line feed.",
        (r#"toYaml (split "," "a,b")"#, r#""- a\n- b""#),
        (1, 1),
        |a| {
            let origin = Origin::file_start(&SourceFile::new("template", ""));
            Ok(write(&Node::from_value(a[0].clone(), &origin), &Style::plain()).trim_end().into())
        },
    ),
    helper("upper", "TEXT", "The text in upper case.", (r#"upper "Ab""#, r#""AB""#), (1, 1), |a| {
        Ok(text(&a[0])?.to_uppercase().into())
    }),
    helper(
        "urlHost",
        "URL",
        "The host of a URL, without its port.",
        (r#"urlHost "https://a.example:8443/x""#, r#""a.example""#),
        (1, 1),
        |a| Ok(url(&a[0])?.host.into()),
    ),
    helper(
        "urlPath",
        "URL",
        "The path of a URL, at least /.",
        (r#"urlPath "https://a.example/x?y""#, r#""/x""#),
        (1, 1),
        |a| Ok(url(&a[0])?.path.into()),
    ),
    helper(
        "urlPort",
        "URL",
        "The port of a URL, or its scheme's own.",
        (r#"urlPort "https://a.example/x""#, "443"),
        (1, 1),
        |a| Ok(url(&a[0])?.port.into()),
    ),
    helper(
        "urlScheme",
        "URL",
        "The scheme of a URL.",
        (r#"urlScheme "https://a.example""#, r#""https""#),
        (1, 1),
        |a| Ok(url(&a[0])?.scheme.into()),
    ),
];

/// What a node can say of itself.
const NODE_FACTS: [&str; 7] =
    ["group", "pool", "instance-id", "zone", "region", "private-ip", "member"];

/// Returns the helper of this name.
#[must_use]
pub(super) fn find(name: &str) -> Option<&'static Helper> {
    HELPERS.iter().find(|h| h.name == name)
}

/// Calls a helper.
///
/// # Errors
/// An unknown helper, a wrong number of arguments, or what the helper says.
pub(super) fn call(name: &str, arguments: &[Value]) -> Result<Value, HelperError> {
    let fail = |reason: String| HelperError { helper: name.to_owned(), reason };
    let helper = find(name).ok_or_else(|| fail("there is no such helper".to_owned()))?;
    let (least, most) = helper.arity;
    if arguments.len() < least || arguments.len() > most {
        return Err(fail(format!("it takes {}", helper.arguments)));
    }
    (helper.run)(arguments).map_err(fail)
}

fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(s) => Ok(s.clone()),
        Value::Number(n) => Ok(n.to_string()),
        Value::Bool(b) => Ok(b.to_string()),
        Value::Null => Err("an argument is null".to_owned()),
        _ => Err("a list or map is no text: use toJson or toYaml".to_owned()),
    }
}

fn int(value: &Value) -> Result<i64, String> {
    value.as_i64().ok_or_else(|| format!("`{value}` is no whole number"))
}

fn list(value: &Value) -> Result<&Vec<Value>, String> {
    value.as_array().ok_or_else(|| "a list is needed".to_owned())
}

fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(b) => *b,
        Value::Number(n) => n.as_f64() != Some(0.0),
        Value::String(s) => !s.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

fn number2(a: &[Value], op: fn(i64, i64) -> Option<i64>) -> Result<Value, String> {
    op(int(&a[0])?, int(&a[1])?)
        .map(Value::from)
        .ok_or_else(|| "the result is too large".to_owned())
}

fn cidr(value: &Value) -> Result<Ipv4Net, String> {
    let text = text(value)?;
    text.parse().map_err(|_| format!("`{text}` is no network"))
}

fn cidr_host(a: &[Value]) -> Result<Value, String> {
    let net = cidr(&a[0])?;
    let size = 1_i64 << (32 - i64::from(net.prefix_len()));
    let n = int(&a[1])?;
    let index = if n < 0 { size + n } else { n };
    let address =
        u32::try_from(index).ok().filter(|_| index < size).map(|i| u32::from(net.network()) + i);
    address
        .map(|a| Ipv4Addr::from(a).to_string().into())
        .ok_or_else(|| format!("{net} has no address {n}"))
}

fn cidr_subnet(a: &[Value]) -> Result<Value, String> {
    let (net, bits, n) = (cidr(&a[0])?, int(&a[1])?, int(&a[2])?);
    let fail = || format!("{net} has no subnet {n} with {bits} more bits");
    let bits = u8::try_from(bits).map_err(|_| fail())?;
    let n = usize::try_from(n).map_err(|_| fail())?;
    let prefix = net.prefix_len().checked_add(bits).filter(|p| *p <= 32).ok_or_else(fail)?;
    // Computed, not counted: a setting can ask for the last of four thousand million.
    let step = 1_u64 << (32 - u32::from(prefix));
    let n = u64::try_from(n).map_err(|_| fail())?;
    let start = u64::from(u32::from(net.network())).saturating_add(n.saturating_mul(step));
    let inside = n < 1_u64 << u32::from(bits);
    let address = u32::try_from(start).ok().filter(|_| inside);
    let subnet = address.and_then(|a| Ipv4Net::new(Ipv4Addr::from(a), prefix).ok());
    subnet.map(|s| s.to_string().into()).ok_or_else(fail)
}

fn has(a: &[Value]) -> Result<Value, String> {
    Ok(match &a[0] {
        Value::Array(items) => items.contains(&a[1]),
        Value::Object(map) => map.contains_key(&text(&a[1])?),
        other => text(other)?.contains(&text(&a[1])?),
    }
    .into())
}

struct Url {
    scheme: String,
    host: String,
    port: u16,
    path: String,
}

/// Takes apart `scheme://host[:port][/path][?…]`; kaws only meets such URLs, checked by their schemas.
fn url(value: &Value) -> Result<Url, String> {
    let text = text(value)?;
    let fail = || format!("`{text}` is no URL");
    let (scheme, rest) = text.split_once("://").ok_or_else(fail)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| fail())?),
        None => (authority, if scheme == "http" { 80 } else { 443 }),
    };
    if host.is_empty() {
        return Err(fail());
    }
    let path = path.split(['?', '#']).next().filter(|p| !p.is_empty()).unwrap_or("/");
    Ok(Url { scheme: scheme.to_owned(), host: host.to_owned(), port, path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use crate::template::{Engine, Scope};
    use serde_json::json;

    #[test]
    fn the_table_is_sorted_documented_and_its_examples_are_true() {
        assert!(HELPERS.windows(2).all(|w| w[0].name < w[1].name));
        let origin = Origin::file_start(&SourceFile::new("t", ""));
        let empty = Node::empty_map(origin.clone());
        let plugin = Name::new("t").unwrap();
        let scope = Scope { roots: [("cluster", &empty)].into(), plugin: &plugin };
        let engine = Engine::new(&[].into());
        for helper in HELPERS {
            assert!(helper.doc.ends_with('.'), "{}", helper.name);
            let (example, result) = helper.example;
            let got = match helper.name {
                // Alone in a leaf these two are references, in text placeholders.
                "secret" | "output" => {
                    call(helper.name, &[json!(example.split('"').nth(1))]).unwrap()
                }
                _ => engine
                    .expression(example)
                    .unwrap()
                    .evaluate(&scope, &origin)
                    .unwrap()
                    .to_value(),
            };
            assert_eq!(got.to_string(), result, "{example}");
        }
    }

    #[test]
    fn wrong_arguments_are_named() {
        assert_eq!(
            call("cidrHost", &[json!("10.0.0.0/30"), json!(4)]).unwrap_err().to_string(),
            "cidrHost: 10.0.0.0/30 has no address 4"
        );
        assert_eq!(call("upper", &[]).unwrap_err().to_string(), "upper: it takes TEXT");
        assert_eq!(
            call("upper", &[Value::Null]).unwrap_err().to_string(),
            "upper: an argument is null"
        );
    }
}
