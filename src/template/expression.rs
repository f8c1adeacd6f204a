//! One expression: a path, a literal or a helper's call, evaluated to a value with its type.

use handlebars::Template;
use handlebars::template::{HelperTemplate, Parameter, TemplateElement};
use serde_json::Value;

use super::Scope;
use super::helpers::{self, HelperError};
use crate::origin::Origin;
use crate::value::{Data, Node};

/// A parsed expression.
#[derive(Clone, Debug)]
pub enum Expression {
    /// A path, by its segments.
    Path(Vec<String>),
    /// A constant.
    Literal(Value),
    /// A helper and its arguments.
    Call(String, Vec<Expression>),
}

impl Expression {
    /// Returns the expression, if the template is exactly one.
    #[must_use]
    pub fn sole(template: &Template) -> Option<Self> {
        match template.elements.as_slice() {
            [TemplateElement::Expression(call) | TemplateElement::HtmlExpression(call)] => {
                Self::of_call(call)
            }
            _ => None,
        }
    }

    pub(super) fn of_call(call: &HelperTemplate) -> Option<Self> {
        if call.params.is_empty() && call.hash.is_empty() {
            return match &call.name {
                Parameter::Name(name) if helpers::find(name).is_some() => {
                    Some(Self::Call(name.clone(), Vec::new()))
                }
                Parameter::Name(name) => Some(Self::Path(segments(name))),
                other => Self::of_parameter(other),
            };
        }
        let name = call.name.as_name()?.to_owned();
        let arguments = call.params.iter().map(Self::of_parameter).collect::<Option<_>>()?;
        Some(Self::Call(name, arguments))
    }

    pub(super) fn of_parameter(parameter: &Parameter) -> Option<Self> {
        match parameter {
            Parameter::Literal(value) => Some(Self::Literal(value.clone())),
            Parameter::Name(name) => Some(Self::Path(segments(name))),
            Parameter::Path(path) => Some(Self::Path(segments(raw(path)))),
            Parameter::Subexpression(inner) => match inner.element.as_ref() {
                TemplateElement::Expression(call) => Self::of_call(call),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the value; null where a path leads nowhere.
    ///
    /// # Errors
    /// What a helper says about its arguments.
    pub fn evaluate(&self, scope: &Scope<'_>, origin: &Origin) -> Result<Node, HelperError> {
        match self {
            Self::Literal(value) => Ok(Node::from_value(value.clone(), origin)),
            Self::Path(path) => Ok(scope.lookup(path).map_or_else(
                || Node::new(Data::Null, origin.clone()),
                |found| Node::new(found.data.clone(), origin.clone()).caused_by(causes(found)),
            )),
            Self::Call(name, arguments) => {
                let arguments: Vec<Node> = arguments
                    .iter()
                    .map(|a| a.evaluate(scope, origin))
                    .collect::<Result<_, _>>()?;
                let values: Vec<Value> = arguments.iter().map(Node::to_value).collect();
                let result = match name.as_str() {
                    "secret" => {
                        let name = values.first().and_then(Value::as_str).unwrap_or_default();
                        serde_json::json!({"$secret": format!("{}/{name}", scope.plugin)})
                    }
                    "output" => serde_json::json!({"$output": values.first()}),
                    _ => helpers::call(name, &values)?,
                };
                let causes = arguments.iter().flat_map(|a| a.causes().to_vec()).collect();
                Ok(Node::from_value(result, origin).caused_by(causes))
            }
        }
    }

    /// Calls `visit` with every path in it.
    pub fn paths<'e>(&'e self, visit: &mut dyn FnMut(&'e [String])) {
        match self {
            Self::Path(path) => visit(path),
            Self::Literal(_) => {}
            Self::Call(_, arguments) => arguments.iter().for_each(|a| a.paths(visit)),
        }
    }

    /// Calls `visit` with every helper's name and its arguments.
    pub fn calls<'e>(&'e self, visit: &mut dyn FnMut(&'e str, &'e [Self])) {
        if let Self::Call(name, arguments) = self {
            visit(name, arguments);
            arguments.iter().for_each(|a| a.calls(visit));
        }
    }
}

/// Where a value was written, if in a file, and what it was made from before.
fn causes(found: &Node) -> Vec<Origin> {
    let mut causes = found.causes().to_vec();
    if found.origin.has_text() {
        causes.push(found.origin.clone());
    }
    causes
}

/// Returns a path as it was written.
pub(super) fn raw(path: &handlebars::Path) -> &str {
    match path {
        handlebars::Path::Relative((_, raw)) | handlebars::Path::Local((_, _, raw)) => raw,
    }
}

/// Returns the segments of a path as handlebars spells it: `a.b.[c d]`, `@root.a`, `this.a`.
pub(super) fn segments(raw: &str) -> Vec<String> {
    let mut segments = Vec::new();
    let mut rest = raw.strip_prefix("@root.").unwrap_or(raw);
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let end = inner.find(']').unwrap_or(inner.len());
            segments.push(inner[..end].to_owned());
            rest = inner[end..].trim_start_matches(']');
        } else {
            let end = rest.find(['.', '/', '[']).unwrap_or(rest.len());
            if end > 0 {
                segments.push(rest[..end].to_owned());
            }
            rest = &rest[end..];
        }
        rest = rest.trim_start_matches(['.', '/']);
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_handlebars_spells_them() {
        assert_eq!(segments("settings.a.[b c].d"), ["settings", "a", "b c", "d"]);
        assert_eq!(segments("@root.cluster.name"), ["cluster", "name"]);
    }

    #[test]
    fn calls_nest() {
        let Expression::Call(name, arguments) = crate::template::Engine::new(&[].into())
            .expression(r#"eq (upper settings.a) "B""#)
            .unwrap()
        else {
            panic!("a call");
        };
        assert_eq!(name, "eq");
        assert!(matches!(&arguments[0], Expression::Call(inner, _) if inner == "upper"));
    }
}
