//! Every path in a template is checked against the schemas before anything is rendered, branches that
//! are not taken included.

use std::collections::{BTreeMap, BTreeSet};

use handlebars::Template;
use handlebars::template::{HelperTemplate, Parameter, TemplateElement};
use serde_json::Value;

use super::evaluate::{each, each_source};
use super::expression::{raw, segments};
use super::{Engine, Expression, ROOTS, Scope, helpers, is_template};
use crate::finding::{Finding, Findings};
use crate::name::did_you_mean;
use crate::origin::Origin;
use crate::schema::{followed, resolve};
use crate::value::{Data, Node, Path};

/// What templates are checked against.
#[derive(Clone, Debug)]
pub struct Checked<'a> {
    /// What parses them.
    pub engine: &'a Engine,
    /// The schema of each root; a root without one is open.
    pub schemas: BTreeMap<&'a str, &'a Value>,
    /// The secrets the plugin's manifest declares.
    pub secrets: &'a BTreeSet<String>,
}

/// What `value` and `this` are at one place: a schema and the document its references are in.
type Item<'a> = Option<(&'a Value, &'a Value)>;

/// Returns all that is wrong with the templates in a contribution.
#[must_use]
pub fn check_tree(node: &Node, cx: &Checked<'_>) -> Findings {
    let mut findings = Findings::new();
    tree(node, cx, None, &mut findings);
    findings
}

/// Returns all that is wrong with a text template.
#[must_use]
pub fn check_text(text: &str, origin: &Origin, cx: &Checked<'_>) -> Findings {
    let mut findings = Findings::new();
    leaf(text, origin, cx, None, &mut findings);
    findings
}

fn tree<'a>(node: &Node, cx: &Checked<'a>, item: Item<'a>, findings: &mut Findings) {
    match &node.data {
        Data::String(text) if is_template(text) => leaf(text, &node.origin, cx, item, findings),
        Data::List(items) => items.iter().for_each(|i| each_or(i, cx, item, findings)),
        Data::Map(_) if node.sole("$literal").is_some() => {}
        Data::Map(map) => {
            for (key, value) in map {
                if key == "$when" {
                    bare(value.as_str().unwrap_or("true"), &value.origin, cx, item, findings);
                    continue;
                }
                if is_template(key) {
                    let inner = each(value).and_then(|(over, _)| item_of(over, cx, item)).or(item);
                    leaf(key, value.key_origin(), cx, inner, findings);
                }
                each_or(value, cx, item, findings);
            }
        }
        _ => {}
    }
}

fn each_or<'a>(node: &Node, cx: &Checked<'a>, item: Item<'a>, findings: &mut Findings) {
    match each(node) {
        Some((over, body)) => {
            bare(&each_source(over), &over.origin, cx, item, findings);
            tree(&body, cx, item_of(over, cx, item), findings);
        }
        None => tree(node, cx, item, findings),
    }
}

/// Returns the schema of the items that `$each` goes over.
fn item_of<'a>(over: &Node, cx: &Checked<'a>, item: Item<'a>) -> Item<'a> {
    let Ok(Expression::Path(path)) = cx.engine.expression(&each_source(over)) else { return None };
    items_at(&path, cx, item)
}

fn items_at<'a>(path: &[String], cx: &Checked<'a>, item: Item<'a>) -> Item<'a> {
    let (root, schema) = at(path, cx, item)?;
    let schema = followed(root, schema);
    let inner = schema.get("items").or_else(|| schema.get("additionalProperties"))?;
    Some((root, inner))
}

fn at<'a>(path: &[String], cx: &Checked<'a>, item: Item<'a>) -> Item<'a> {
    let (first, rest) = path.split_first()?;
    let (root, schema) = match first.as_str() {
        "value" | "this" => item?,
        other => cx.schemas.get(other).map(|s| (*s, *s))?,
    };
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    resolve(root, schema, &rest).map(|s| (root, s))
}

fn bare<'a>(
    text: &str,
    origin: &Origin,
    cx: &Checked<'a>,
    item: Item<'a>,
    findings: &mut Findings,
) {
    let text = text.trim().trim_start_matches("{{").trim_end_matches("}}");
    match cx.engine.expression(text) {
        Ok(expression) => one(&expression, origin, cx, item, findings),
        Err(reason) => {
            let reason = reason.lines().next().unwrap_or_default();
            let finding =
                Finding::fatal("template/syntax", format!("`{text}` is no expression: {reason}"));
            findings.push(finding.at(origin));
        }
    }
}

fn leaf<'a>(
    text: &str,
    origin: &Origin,
    cx: &Checked<'a>,
    item: Item<'a>,
    findings: &mut Findings,
) {
    match cx.engine.parse(text, origin) {
        Ok(template) => elements(&template, &Place { text, origin }, cx, item, findings),
        Err(finding) => findings.push(*finding),
    }
}

struct Place<'p> {
    text: &'p str,
    origin: &'p Origin,
}

fn elements<'a>(
    template: &Template,
    place: &Place<'_>,
    cx: &Checked<'a>,
    item: Item<'a>,
    findings: &mut Findings,
) {
    for (i, element) in template.elements.iter().enumerate() {
        let mapping = template.mapping.get(i);
        let here = mapping.map_or_else(
            || place.origin.clone(),
            |m| super::text::inside(place.text, place.origin, m.0, m.1),
        );
        match element {
            TemplateElement::Expression(call) | TemplateElement::HtmlExpression(call) => {
                match Expression::of_call(call) {
                    Some(expression) => one(&expression, &here, cx, item, findings),
                    None => unknown_form(&here, findings),
                }
            }
            TemplateElement::HelperBlock(block) => {
                self::block(block, &here, place, cx, item, findings);
            }
            TemplateElement::RawString(_)
            | TemplateElement::Comment(_)
            | TemplateElement::PartialExpression(_) => {}
            _ => unknown_form(&here, findings),
        }
    }
}

fn unknown_form(origin: &Origin, findings: &mut Findings) {
    findings.push(
        Finding::fatal("template/syntax", "this form of handlebars is not used in kaws").at(origin),
    );
}

fn block<'a>(
    block: &HelperTemplate,
    here: &Origin,
    place: &Place<'_>,
    cx: &Checked<'a>,
    item: Item<'a>,
    findings: &mut Findings,
) {
    let name = block.name.as_name().unwrap_or_default();
    let parameter = block.params.first().and_then(Expression::of_parameter);
    if !["if", "unless", "each", "with"].contains(&name) {
        return unknown_helper(name, here, findings);
    }
    let mut inner = item;
    if let Some(expression) = &parameter {
        one(expression, here, cx, item, findings);
        if let (Expression::Path(path), "each" | "with") = (expression, name) {
            inner = if name == "each" { items_at(path, cx, item) } else { at(path, cx, item) };
        }
    }
    if let Some(template) = &block.template {
        elements(template, place, cx, inner, findings);
    }
    if let Some(template) = &block.inverse {
        elements(template, place, cx, item, findings);
    }
}

fn one<'a>(
    expression: &Expression,
    origin: &Origin,
    cx: &Checked<'a>,
    item: Item<'a>,
    findings: &mut Findings,
) {
    expression.paths(&mut |path| {
        if let Some(finding) = path_finding(path, cx, item) {
            findings.push(finding.at(origin));
        }
    });
    expression.calls(&mut |name, arguments| match helpers::find(name) {
        None => unknown_helper(name, origin, findings),
        Some(_) if name == "secret" => {
            if let Some(Expression::Literal(Value::String(secret))) = arguments.first()
                && !cx.secrets.contains(secret)
            {
                let text = format!("the manifest declares no secret `{secret}`");
                let help = format!(
                    "add to plugin.yaml:\n\n    secrets:\n      {secret}: {{description: …}}"
                );
                findings.push(Finding::fatal("template/secret", text).at(origin).help(help));
            }
        }
        Some(helper) if arguments.len() < helper.arity.0 || arguments.len() > helper.arity.1 => {
            let text = format!("{name} takes {}", helper.arguments);
            findings.push(Finding::fatal("template/failed", text).at(origin));
        }
        Some(_) => {}
    });
}

fn unknown_helper(name: &str, origin: &Origin, findings: &mut Findings) {
    let finding = Finding::fatal("template/unknown-helper", format!("there is no helper `{name}`"))
        .at(origin);
    let near = did_you_mean(name, helpers::HELPERS.iter().map(|h| h.name));
    findings.push(near.into_iter().fold(finding, |f, n| f.help(format!("did you mean `{n}`?"))));
}

fn path_finding(path: &[String], cx: &Checked<'_>, item: Item<'_>) -> Option<Finding> {
    let first = path.first()?;
    if first.starts_with('@') || first == ".." || (first == "this" && item.is_none()) {
        return None;
    }
    let shown = Path(path.to_vec());
    let unknown = |text: String| Finding::fatal("template/unknown-path", text);
    let known_root = ROOTS.iter().any(|(root, _)| root == first) || first == "this";
    // Inside {{#each}} and {{#with}} a bare name is one of the item's.
    if !known_root {
        if let Some((root, schema)) = item {
            let rest: Vec<&str> = path.iter().map(String::as_str).collect();
            if resolve(root, schema, &rest).is_some() {
                return None;
            }
        }
        let near = did_you_mean(first, ROOTS.iter().map(|(root, _)| *root));
        let finding = unknown(format!("`{shown}` begins with no name that templates know"));
        let all: Vec<&str> = ROOTS.iter().map(|(root, _)| *root).collect();
        return Some(match near {
            Some(near) => finding.help(format!("did you mean `{near}`?")),
            None => finding.help(format!("they know: {}", all.join(", "))),
        });
    }
    let open = match first.as_str() {
        "value" | "this" | "key" => item.is_none(),
        root => !cx.schemas.contains_key(root),
    };
    if open || first == "key" || at(path, cx, item).is_some() {
        return None;
    }
    let depth =
        (1..path.len()).find(|n| at(&path[..=*n], cx, item).is_none()).unwrap_or(path.len() - 1);
    let before = &path[..depth];
    let names = at(before, cx, item)
        .map(|(root, schema)| names(followed(root, schema)))
        .unwrap_or_default();
    let near = did_you_mean(&path[depth], names.iter().map(String::as_str));
    let finding = unknown(format!("there is no `{}` in `{}`", path[depth], Path(before.to_vec())));
    Some(match near {
        Some(near) => finding.help(format!("did you mean `{}`?", Path(before.to_vec()).join(near))),
        None if names.is_empty() => finding,
        None => finding.help(format!("it has: {}", names.join(", "))),
    })
}

fn names(schema: &Value) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.map(|p| p.keys().cloned().collect()).unwrap_or_default()
}

/// Returns the roots a template uses, each with the second names it uses, or `None` for all of them.
pub(super) fn roots_of(template: &Template) -> BTreeMap<String, Option<BTreeSet<String>>> {
    let mut roots: BTreeMap<String, Option<BTreeSet<String>>> = BTreeMap::new();
    all_paths(template, &mut |path| {
        let Some(first) = path.first() else { return };
        let slot = roots.entry(first.clone()).or_insert_with(|| Some(BTreeSet::new()));
        match (path.get(1), slot) {
            (Some(second), Some(seconds)) => {
                seconds.insert(second.clone());
            }
            (None, slot) => *slot = None,
            _ => {}
        }
    });
    roots
}

/// Returns where the settings that a template uses were written.
pub(super) fn causes(template: &Template, scope: &Scope<'_>) -> Vec<Origin> {
    let mut causes = Vec::new();
    all_paths(template, &mut |path| {
        if let Some(node) = scope.lookup(path) {
            causes.extend(node.causes().iter().cloned());
            if node.origin.has_text() && path[0] == "settings" {
                causes.push(node.origin.clone());
            }
        }
    });
    causes.sort();
    causes.dedup();
    causes
}

fn all_paths(template: &Template, visit: &mut dyn FnMut(&[String])) {
    for element in &template.elements {
        match element {
            TemplateElement::Expression(call)
            | TemplateElement::HtmlExpression(call)
            | TemplateElement::HelperBlock(call) => call_paths(call, visit),
            _ => {}
        }
    }
}

fn call_paths(call: &HelperTemplate, visit: &mut dyn FnMut(&[String])) {
    if !call.block && call.params.is_empty() {
        parameter_paths(&call.name, visit);
    }
    call.params.iter().for_each(|p| parameter_paths(p, visit));
    for template in [&call.template, &call.inverse].into_iter().flatten() {
        all_paths(template, visit);
    }
}

fn parameter_paths(parameter: &Parameter, visit: &mut dyn FnMut(&[String])) {
    match parameter {
        Parameter::Name(name) => visit(&segments(name)),
        Parameter::Path(path) => visit(&segments(raw(path).trim_start_matches("../"))),
        Parameter::Subexpression(inner) => {
            if let TemplateElement::Expression(call) = inner.element.as_ref() {
                call_paths(call, visit);
            }
        }
        _ => {}
    }
}

/// Returns whether a template anywhere in `node` uses the root `name`; `also` looks into files it names.
#[must_use]
pub fn uses_root(
    node: &Node,
    name: &str,
    engine: &Engine,
    also: &dyn Fn(&str) -> Option<String>,
) -> bool {
    let mut used = false;
    let in_text = |text: &str| engine.parsed(text).is_ok_and(|t| roots_of(&t).contains_key(name));
    node.walk(&mut |part| {
        for (key, value) in part.as_map().into_iter().flatten() {
            used |= is_template(key) && in_text(key);
            let text = value.as_str().unwrap_or_default();
            used |= (key == "$when" || key == "$each") && in_text(&format!("{{{{{text}}}}}"));
            used |= key == "template" && also(text).is_some_and(|t| in_text(&t));
        }
        used |= part.as_str().is_some_and(|text| is_template(text) && in_text(text));
    });
    used
}
