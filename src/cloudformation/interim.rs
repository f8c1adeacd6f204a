//! A template between two: the new one, with everything that it drops still there.

use serde_json::{Map, Value};

use super::template::TemplateError;
use crate::origin::SourceFile;

/// Sections whose entries are kept.
const SECTIONS: [&str; 5] = ["Parameters", "Mappings", "Conditions", "Resources", "Outputs"];

/// Returns the new template with the entries of the old one that it lacks, as JSON: what a stack is while
/// others still use what it will drop.
///
/// # Errors
/// Texts that are no templates.
pub fn interim(old: &str, new: &str) -> Result<String, TemplateError> {
    let (old, mut new) = (read(old)?, read(new)?);
    for section in SECTIONS {
        let kept = old.get(section).and_then(Value::as_object).cloned().unwrap_or_default();
        let Some(root) = new.as_object_mut() else { continue };
        let now = root.entry(section).or_insert_with(|| Value::Object(Map::new()));
        let Some(now) = now.as_object_mut() else { continue };
        for (name, value) in kept {
            now.entry(name).or_insert(value);
        }
        if now.is_empty() {
            root.remove(section);
        }
    }
    Ok(new.to_string())
}

fn read(text: &str) -> Result<Value, TemplateError> {
    let file = SourceFile::new("template", text);
    crate::value::read(&file).map(|node| node.to_value()).map_err(|findings| {
        let first = findings.iter().next();
        TemplateError::Yaml(first.map(|f| f.message.clone()).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloudformation::Template;

    #[test]
    fn what_is_dropped_stays_and_what_is_new_is_there() {
        let old = "Resources: {A: {Type: T}, B: {Type: T, Properties: {X: 1}}}\nOutputs: {B: {Value: !Ref B}}\n";
        let new = "Resources: {A: {Type: T, Properties: {X: 2}}, C: {Type: T}}\n";
        let both = Template::read(&interim(old, new).unwrap()).unwrap();
        assert_eq!(both.resources.keys().collect::<Vec<_>>(), ["A", "B", "C"]);
        assert_eq!(both.resources["A"].properties["X"], 2);
        assert!(both.outputs.contains_key("B"));
    }
}
