//! Text templates: handlebars, strict, without HTML escaping.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use handlebars::{
    Context, Handlebars, Helper as Call, HelperDef, RenderContext, RenderError, RenderErrorReason,
    Renderable, ScopedJson, StringOutput, Template, TemplateError,
};
use serde_json::{Map, Value};

use super::check::roots_of;
use super::helpers::{self, HELPERS};
use super::{Expression, Scope, guarded};
use crate::finding::Finding;
use crate::origin::Origin;
use crate::value::{Data, Node};

/// Parses and renders; one serves all plugins.
#[derive(Debug)]
pub struct Engine {
    registry: Handlebars<'static>,
    /// Templates by their text: parsing is slow, and most are rendered for every group of machines.
    parsed: Mutex<BTreeMap<String, Arc<Template>>>,
}

impl Engine {
    /// Returns an engine that knows `partials` by name.
    ///
    /// # Panics
    /// If a partial does not parse: they are part of the binary, and a test renders them.
    #[must_use]
    pub fn new(partials: &BTreeMap<String, String>) -> Self {
        let mut registry = Handlebars::new();
        registry.set_strict_mode(true);
        registry.register_escape_fn(handlebars::no_escape);
        for helper in HELPERS {
            registry.register_helper(helper.name, Box::new(Bridge(helper.name)));
        }
        for (name, text) in partials {
            registry.register_partial(name, text).expect("a test renders every partial");
        }
        Self { registry, parsed: Mutex::default() }
    }

    /// Returns the text that `text` gives.
    ///
    /// # Errors
    /// A finding at `origin`, or at the line inside it where the template is a file.
    pub fn render(
        &self,
        text: &str,
        scope: &Scope<'_>,
        origin: &Origin,
    ) -> Result<String, Box<Finding>> {
        self.fill(&*self.parse(text, origin)?, text, scope, origin)
    }

    /// Parses a template.
    ///
    /// # Errors
    /// A finding at the line.
    pub(super) fn parse(&self, text: &str, origin: &Origin) -> Result<Arc<Template>, Box<Finding>> {
        self.parsed(text).map_err(|error| Box::new(unparsed(&error, text, origin)))
    }

    /// Reads an expression without its braces, as `$when` and `$each` take it.
    ///
    /// # Errors
    /// What handlebars says, or that it is more than one expression.
    pub fn expression(&self, text: &str) -> Result<Expression, String> {
        let template = self
            .parsed(&format!("{{{{{}}}}}", text.trim()))
            .map_err(|error| error.reason().to_string())?;
        Expression::sole(&template).ok_or_else(|| "one expression is needed".to_owned())
    }

    pub(super) fn parsed(&self, text: &str) -> Result<Arc<Template>, Box<TemplateError>> {
        let known = || self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(template) = known().get(text) {
            return Ok(Arc::clone(template));
        }
        let template = Arc::new(Template::compile(&guarded(text))?);
        known().insert(text.to_owned(), Arc::clone(&template));
        Ok(template)
    }

    /// Returns the text that a template gives which has been parsed.
    ///
    /// # Errors
    /// As [`Engine::render`].
    pub(super) fn fill(
        &self,
        template: &Template,
        text: &str,
        scope: &Scope<'_>,
        origin: &Origin,
    ) -> Result<String, Box<Finding>> {
        let data = data(template, scope);
        let context = Context::from(data);
        let mut out = StringOutput::new();
        template
            .render(&self.registry, &context, &mut RenderContext::new(None), &mut out)
            .map_err(|error| Box::new(failed(&error, text, origin)))?;
        out.into_string().map_err(|_| {
            Box::new(Finding::fatal("template/failed", "the text is not UTF-8").at(origin))
        })
    }
}

fn unparsed(error: &TemplateError, text: &str, origin: &Origin) -> Finding {
    let reason = error.reason().to_string();
    let at = error
        .pos()
        .map_or_else(|| origin.clone(), |(line, column)| inside(text, origin, line, column));
    let first = reason.lines().find(|l| !l.trim().is_empty()).unwrap_or("it does not parse").trim();
    Finding::fatal("template/syntax", format!("the template does not parse: {first}"))
        .at(&at)
        .help("braces of other languages stand in `$literal:`, or behind a backslash: \\{{")
}

/// Returns the place at `line` and `column` of a template: exact where the template is a whole file.
pub(super) fn inside(text: &str, origin: &Origin, line: usize, column: usize) -> Origin {
    if origin.file().text != text {
        return origin.clone();
    }
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let line = text[start..].split('\n').next().unwrap_or_default();
    let from = start + line.char_indices().nth(column.saturating_sub(1)).map_or(0, |(i, _)| i);
    let rest = &text[from..start + line.len()];
    let length = rest.find("}}").map_or(rest.len(), |p| p + 2);
    Origin::new(origin.file(), from, from + length)
}

fn failed(error: &RenderError, text: &str, origin: &Origin) -> Finding {
    let at = match (error.line_no, error.column_no) {
        (Some(line), Some(column)) => inside(text, origin, line, column),
        _ => origin.clone(),
    };
    match error.reason() {
        RenderErrorReason::MissingVariable(path) => {
            let path = path.clone().unwrap_or_default();
            Finding::fatal("template/null", format!("`{path}` is null, and stands in a text"))
                .at(&at)
                .help("give the setting a default, or guard the text: {{#if …}} or $when")
        }
        RenderErrorReason::HelperNotFound(name) => {
            Finding::fatal("template/unknown-helper", format!("there is no helper `{name}`"))
                .at(&at)
        }
        other => {
            let reason = other.to_string();
            let reason =
                reason.strip_prefix("Error when rendering: ").unwrap_or(&reason).to_owned();
            Finding::fatal("template/failed", format!("the template fails: {reason}")).at(&at)
        }
    }
}

/// Returns the values a template uses: nulls are not there, so that the strict mode finds them, and
/// references are the placeholders that nodes fill in.
fn data(template: &Template, scope: &Scope<'_>) -> Value {
    let mut data = Map::new();
    let used = roots_of(template);
    for (name, node) in &scope.roots {
        let Some(parts) = used.get(*name) else { continue };
        let value = match (parts, &node.data) {
            (Some(parts), Data::Map(map)) => {
                let parts = map.iter().filter(|(k, _)| parts.contains(*k));
                Value::Object(parts.map(|(k, v)| (k.clone(), textual(v))).collect())
            }
            _ => textual(node),
        };
        data.insert((*name).to_owned(), value);
    }
    let plugin = scope.plugin.as_str();
    let own = data.entry("plugin".to_owned()).or_insert_with(|| Value::Object(Map::new()));
    if let Some(own) = own.as_object_mut() {
        own.insert("name".to_owned(), plugin.into());
    }
    Value::Object(data)
}

fn textual(node: &Node) -> Value {
    for word in ["secret", "output"] {
        if let Some(name) = node.sole(&format!("${word}")).and_then(Node::as_str) {
            return Value::String(format!("@{{{word} {name}}}"));
        }
    }
    match &node.data {
        Data::List(items) => Value::Array(items.iter().map(textual).collect()),
        Data::Map(map) => {
            let kept = map.iter().filter(|(_, v)| !v.is_null());
            Value::Object(kept.map(|(k, v)| (k.clone(), textual(v))).collect())
        }
        _ => node.to_value(),
    }
}

/// A helper of ours, as handlebars calls it.
struct Bridge(&'static str);

impl HelperDef for Bridge {
    fn call_inner<'reg: 'rc, 'rc>(
        &self,
        call: &Call<'rc>,
        _: &'reg Handlebars<'reg>,
        context: &'rc Context,
        _: &mut RenderContext<'reg, 'rc>,
    ) -> Result<ScopedJson<'rc>, RenderError> {
        let mut arguments: Vec<Value> = call.params().iter().map(|p| p.value().clone()).collect();
        if self.0 == "secret" {
            let plugin =
                context.data().pointer("/plugin/name").and_then(Value::as_str).unwrap_or_default();
            if let Some(Value::String(name)) = arguments.first_mut() {
                *name = format!("{plugin}/{name}");
            }
        }
        let value = helpers::call(self.0, &arguments)
            .map_err(|e| RenderErrorReason::Other(e.to_string()))?;
        if value.is_null() {
            return Err(RenderErrorReason::Other(format!("{} gives null", self.0)).into());
        }
        Ok(ScopedJson::Derived(value))
    }
}
