//! A template as data: its sections, with short tags in their long form.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::origin::SourceFile;

/// Why a text is no template.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TemplateError {
    /// It is no YAML.
    #[error("the template is no YAML: {0}")]
    Yaml(String),
    /// A part of it has another shape.
    #[error("the template's {0}")]
    Shape(String),
}

/// A stack template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template {
    /// What is passed in.
    pub parameters: BTreeMap<String, Parameter>,
    /// Tables for `Fn::FindInMap`.
    pub mappings: Value,
    /// Conditions by name.
    pub conditions: BTreeMap<String, Value>,
    /// Resources by logical id.
    pub resources: BTreeMap<String, Resource>,
    /// Outputs by name.
    pub outputs: BTreeMap<String, Output>,
    /// Whatever its author wrote beside it.
    pub metadata: Value,
}

/// A parameter's declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// `String`, `CommaDelimitedList`, `AWS::EC2::VPC::Id`…
    pub kind: String,
    /// Its value where none is passed.
    pub default: Option<String>,
    /// Whether its value is never shown.
    pub no_echo: bool,
}

/// A resource's declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// `AWS::EC2::VPC`…
    pub kind: String,
    /// Its properties, intrinsics and all.
    pub properties: Map<String, Value>,
    /// Resources it comes after without naming them in a property.
    pub depends_on: Vec<String>,
    /// The condition under which it is there.
    pub condition: Option<String>,
    /// `Delete`, `Retain`, `Snapshot`…: what becomes of it when it leaves the template.
    pub deletion_policy: Option<String>,
    /// The same for the old one, when it is replaced.
    pub replace_policy: Option<String>,
    /// How a change of it is rolled out.
    pub update_policy: Value,
    /// What it waits for when it is created.
    pub creation_policy: Value,
    /// Whatever its author wrote beside it.
    pub metadata: Value,
}

impl Resource {
    /// Returns whether it is kept when it leaves the template or its stack goes.
    #[must_use]
    pub fn is_retained(&self) -> bool {
        self.deletion_policy.as_deref().is_some_and(|policy| policy.starts_with("Retain"))
    }
}

/// An output's declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Its value.
    pub value: Value,
    /// The condition under which it is there.
    pub condition: Option<String>,
}

impl Template {
    /// Reads a template, YAML or JSON.
    ///
    /// # Errors
    /// What is no YAML, or has another shape than a template's.
    pub fn read(text: &str) -> Result<Self, TemplateError> {
        let file = SourceFile::new("template", text);
        let node = crate::value::read(&file).map_err(|findings| {
            let first = findings.iter().next();
            TemplateError::Yaml(first.map(|f| f.message.clone()).unwrap_or_default())
        })?;
        Self::of(&node.to_value())
    }

    fn of(value: &Value) -> Result<Self, TemplateError> {
        let section = |name: &str| match value.get(name) {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(map)) => Ok(map.clone()),
            Some(_) => Err(TemplateError::Shape(format!("{name} is no map"))),
        };
        let parameters = section("Parameters")?;
        let resources = section("Resources")?;
        let outputs = section("Outputs")?;
        Ok(Self {
            parameters: parameters.into_iter().map(|(k, v)| (k, Parameter::of(&v))).collect(),
            mappings: Value::Object(section("Mappings")?),
            conditions: section("Conditions")?.into_iter().collect(),
            resources: resources
                .into_iter()
                .map(|(id, v)| Resource::of(&id, &v).map(|r| (id, r)))
                .collect::<Result<_, _>>()?,
            outputs: outputs.into_iter().map(|(k, v)| (k, Output::of(&v))).collect(),
            metadata: Value::Object(section("Metadata")?),
        })
    }
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

impl Template {
    /// Returns the stacks that come before this one, as kaws notes them in Metadata.
    #[must_use]
    pub fn after(&self) -> Vec<String> {
        let all = self.metadata["kaws"]["after"].as_array();
        all.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }
}

impl Parameter {
    fn of(value: &Value) -> Self {
        let default = value.get("Default").map(|d| match d {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        let no_echo = match value.get("NoEcho") {
            Some(Value::Bool(b)) => *b,
            Some(Value::String(text)) => text == "true",
            _ => false,
        };
        Self { kind: text(value, "Type").unwrap_or_else(|| "String".to_owned()), default, no_echo }
    }
}

impl Resource {
    fn of(id: &str, value: &Value) -> Result<Self, TemplateError> {
        let kind = text(value, "Type")
            .ok_or_else(|| TemplateError::Shape(format!("resource {id} has no Type")))?;
        let properties = match value.get("Properties") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(map)) => map.clone(),
            Some(_) => {
                return Err(TemplateError::Shape(format!(
                    "resource {id} has Properties that are no map"
                )));
            }
        };
        let depends_on = match value.get("DependsOn") {
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(all)) => {
                all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        let part = |key: &str| value.get(key).cloned().unwrap_or(Value::Null);
        Ok(Self {
            kind,
            properties,
            depends_on,
            condition: text(value, "Condition"),
            deletion_policy: text(value, "DeletionPolicy"),
            replace_policy: text(value, "UpdateReplacePolicy"),
            update_policy: part("UpdatePolicy"),
            creation_policy: part("CreationPolicy"),
            metadata: part("Metadata"),
        })
    }
}

impl Output {
    fn of(value: &Value) -> Self {
        Self {
            value: value.get("Value").cloned().unwrap_or(Value::Null),
            condition: text(value, "Condition"),
        }
    }
}
