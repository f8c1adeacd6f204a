//! YAML text becomes located values: YAML 1.2's core schema, CloudFormation's short tags, and limits.
//!
//! Not here: files, and what the values mean.

use std::collections::BTreeMap;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};
use serde_json::Number;

use super::{Data, Node};
use crate::finding::{Finding, Findings};
use crate::origin::{Origin, SourceFile};

/// The largest file that is read, in bytes.
pub const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// The deepest nesting.
const MAX_DEPTH: usize = 96;
/// The most values one document may hold once aliases are filled in: a cluster of 5,000 pools fits.
const MAX_NODES: usize = 1_000_000;
/// The most values that may come from aliases.
const MAX_ALIASED: usize = 10_000;

/// Reads one YAML document; an empty one is null.
///
/// # Errors
/// Syntax errors stop at the first; doubled keys, unknown tags and numbers that readers disagree about
/// are all found.
pub fn read(file: &Arc<SourceFile>) -> Result<Node, Findings> {
    // Another crate may turn on the parser's feature that makes events of them.
    let mut options = granit_parser::Options::default();
    options.emit_comments = false;
    let mut reader = Reader {
        file,
        parser: Parser::new_from_str_with_options(&file.text, options),
        anchors: BTreeMap::new(),
        nodes: 0,
        aliased: 0,
        findings: Findings::new(),
    };
    match reader.document() {
        Ok(node) if reader.findings.is_empty() => Ok(node),
        Ok(_) => Err(reader.findings),
        Err(finding) => {
            reader.findings.push(*finding);
            Err(reader.findings)
        }
    }
}

struct Reader<'a> {
    file: &'a Arc<SourceFile>,
    parser: Parser<'a, granit_parser::StrInput<'a>>,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
    aliased: usize,
    findings: Findings,
}

type Stop = Box<Finding>;

impl<'a> Reader<'a> {
    fn document(&mut self) -> Result<Node, Stop> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => {
                    let start = Origin::file_start(self.file);
                    return Ok(root.unwrap_or_else(|| Node::new(Data::Null, start)));
                }
                Event::DocumentStart(..) if root.is_some() => {
                    return Err(self.stop("yaml/syntax", "a second document begins here", &span));
                }
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                event => root = Some(self.node(event, &span, 0)?),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Stop> {
        match self.parser.next() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(self.syntax(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'a>, span: &Span, depth: usize) -> Result<Node, Stop> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(self.stop(
                "yaml/too-large",
                "the document holds over 1,000,000 values",
                span,
            ));
        }
        if depth > MAX_DEPTH {
            return Err(self.stop("yaml/too-deep", "values are nested over 96 levels deep", span));
        }
        let origin = self.origin(span);
        let (node, anchor, tag) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (self.scalar(&text, style, tag.as_deref(), origin), anchor, tag)
            }
            Event::SequenceStart(_, anchor, tag) => (self.list(origin, depth)?, anchor, tag),
            Event::MappingStart(_, anchor, tag) => (self.map(origin, depth)?, anchor, tag),
            Event::Alias(id) => return self.alias(id, span),
            _ => return Err(self.stop("yaml/syntax", "a value is missing", span)),
        };
        let node = self.tagged(node, tag.as_deref());
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, origin: Origin, depth: usize) -> Result<Node, Stop> {
        let mut items = Vec::new();
        let start = origin.range().start;
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                let origin = self.closed(&origin, start, &span);
                return Ok(Node::new(Data::List(items), origin));
            }
            items.push(self.node(event, &span, depth + 1)?);
        }
    }

    fn map(&mut self, origin: Origin, depth: usize) -> Result<Node, Stop> {
        let mut map: BTreeMap<String, Node> = BTreeMap::new();
        let start = origin.range().start;
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                let origin = self.closed(&origin, start, &span);
                return Ok(Node::new(Data::Map(map), origin));
            }
            let key = self.key(event, &span)?;
            let key_origin = self.origin(&span);
            let (event, span) = self.next()?;
            let mut value = self.node(event, &span, depth + 1)?;
            if let Some(first) = map.get(&key) {
                let finding =
                    Finding::fatal("yaml/duplicate-key", format!("`{key}` stands here twice"))
                        .at_with(&key_origin, "again")
                        .related(first.key_origin(), "first here")
                        .help("keep one of the two");
                self.findings.push(finding);
                continue;
            }
            value.key = Some(key_origin);
            map.insert(key, value);
        }
    }

    /// A map in braces covers its text; one in block style is shown by its first line.
    fn closed(&self, origin: &Origin, start: usize, end: &Span) -> Origin {
        let flow = matches!(self.file.text.as_bytes().get(start), Some(b'{' | b'['));
        let stop = end.end.byte_offset().unwrap_or(start);
        if flow { Origin::new(self.file, start, stop) } else { origin.clone() }
    }

    fn key(&mut self, event: Event<'a>, span: &Span) -> Result<String, Stop> {
        match event {
            Event::Scalar(text, style, ..) => {
                if style == ScalarStyle::Plain && text == "<<" {
                    let help = "write the keys out, or use `extends:` in cluster.yaml";
                    let stop =
                        self.stop("yaml/merge-key", "merge keys (`<<`) are not supported", span);
                    return Err(Box::new(stop.help(help)));
                }
                Ok(text.into_owned())
            }
            _ => Err(self.stop("yaml/syntax", "a key must be plain text", span)),
        }
    }

    fn alias(&mut self, id: usize, span: &Span) -> Result<Node, Stop> {
        let Some(target) = self.anchors.get(&id) else {
            return Err(self.stop(
                "yaml/syntax",
                "this alias refers to a value it is part of",
                span,
            ));
        };
        let mut count = 0;
        target.walk(&mut |_| count += 1);
        self.aliased += count;
        let target = target.clone();
        if self.aliased > MAX_ALIASED {
            let text = "aliases fill in over 10,000 values here";
            return Err(self.stop("yaml/too-large", text, span));
        }
        Ok(target)
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        origin: Origin,
    ) -> Node {
        let is_string = tag.is_some_and(|t| t.is_yaml_core_schema() && t.suffix() == "str");
        if style != ScalarStyle::Plain || is_string || tag.is_some_and(|t| !t.is_yaml_core_schema())
        {
            return Node::string(text, origin);
        }
        let data = match text {
            "" | "~" | "null" | "Null" | "NULL" => Data::Null,
            "true" | "True" | "TRUE" => Data::Bool(true),
            "false" | "False" | "FALSE" => Data::Bool(false),
            _ => match number(text) {
                Parsed::Number(number) => Data::Number(number),
                Parsed::Text => Data::String(text.into()),
                Parsed::Ambiguous => {
                    let finding = Finding::fatal(
                        "yaml/ambiguous-number",
                        format!("`{text}` is a different number to different readers of YAML"),
                    );
                    self.findings
                        .push(finding.at(&origin).help(format!("write it in quotes: \"{text}\"")));
                    Data::String(text.into())
                }
            },
        };
        Node::new(data, origin)
    }

    /// CloudFormation's short tags become their long form; other tags are not known.
    fn tagged(&mut self, node: Node, tag: Option<&Tag>) -> Node {
        let Some(tag) = tag.filter(|t| !t.is_yaml_core_schema()) else { return node };
        let suffix = tag.suffix();
        let Some(long) = long_form(suffix) else {
            let message = format!("the tag `!{suffix}` is not known");
            let finding = Finding::fatal("yaml/unknown-tag", message).at(&node.origin);
            self.findings.push(
                finding.help("CloudFormation's short tags are: !Ref, !GetAtt, !Sub, !Join, …"),
            );
            return node;
        };
        let origin = node.origin.clone();
        let value = match (long, node.as_str()) {
            ("Fn::GetAtt", Some(text)) => {
                let (id, attribute) = text.split_once('.').unwrap_or((text, ""));
                let parts = [id, attribute].map(|p| Node::string(p, origin.clone()));
                Node::new(Data::List(parts.to_vec()), origin.clone())
            }
            _ => node,
        };
        Node::new(Data::Map(BTreeMap::from([(long.to_owned(), value)])), origin)
    }

    fn origin(&self, span: &Span) -> Origin {
        let start = span.start.byte_offset().unwrap_or(self.file.text.len());
        Origin::new(self.file, start, span.end.byte_offset().unwrap_or(start).max(start))
    }

    fn stop(&self, code: &str, message: &str, span: &Span) -> Stop {
        Box::new(Finding::fatal(code, message).at(&self.origin(span)))
    }

    fn syntax(&self, error: &ScanError) -> Stop {
        let at = error.marker().byte_offset().unwrap_or(self.file.text.len());
        let origin = Origin::new(self.file, at, at);
        let deep = matches!(error.kind(), granit_parser::ErrorKind::RecursionLimitExceeded);
        let code = if deep { "yaml/too-deep" } else { "yaml/syntax" };
        Box::new(Finding::fatal(code, error.info()).at(&origin))
    }
}

enum Parsed {
    Number(Number),
    Text,
    Ambiguous,
}

/// YAML 1.2's numbers; those with a leading zero or `_` mean something else in YAML 1.1.
fn number(text: &str) -> Parsed {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let Some(first) = digits.bytes().next() else { return Parsed::Text };
    if !first.is_ascii_digit() && first != b'.' {
        return Parsed::Text;
    }
    let all_digits = digits.bytes().all(|b| b.is_ascii_digit());
    if all_digits && digits.len() > 1 && first == b'0' {
        return Parsed::Ambiguous;
    }
    if all_digits {
        let unsigned = text.trim_start_matches('+');
        return match (unsigned.parse::<i64>(), unsigned.parse::<u64>()) {
            (Ok(n), _) => Parsed::Number(n.into()),
            (_, Ok(n)) => Parsed::Number(n.into()),
            _ => Parsed::Ambiguous,
        };
    }
    let radix = [("0x", 16), ("0o", 8)]
        .iter()
        .find_map(|(prefix, radix)| u64::from_str_radix(text.strip_prefix(prefix)?, *radix).ok());
    if let Some(n) = radix {
        return Parsed::Number(n.into());
    }
    let float = digits.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b));
    let number = if float { text.parse::<f64>().ok().and_then(Number::from_f64) } else { None };
    number.map_or(Parsed::Text, Parsed::Number)
}

/// Returns the long form of CloudFormation's short tag.
fn long_form(tag: &str) -> Option<&'static str> {
    Some(match tag {
        "Ref" => "Ref",
        "Condition" => "Condition",
        "And" => "Fn::And",
        "Base64" => "Fn::Base64",
        "Cidr" => "Fn::Cidr",
        "Equals" => "Fn::Equals",
        "FindInMap" => "Fn::FindInMap",
        "GetAZs" => "Fn::GetAZs",
        "GetAtt" => "Fn::GetAtt",
        "If" => "Fn::If",
        "ImportValue" => "Fn::ImportValue",
        "Join" => "Fn::Join",
        "Length" => "Fn::Length",
        "Not" => "Fn::Not",
        "Or" => "Fn::Or",
        "Select" => "Fn::Select",
        "Split" => "Fn::Split",
        "Sub" => "Fn::Sub",
        "ToJsonString" => "Fn::ToJsonString",
        "Transform" => "Fn::Transform",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(text: &str) -> serde_json::Value {
        read(&SourceFile::new("t.yaml", text)).unwrap().to_value()
    }

    fn code(text: &str) -> String {
        let findings = read(&SourceFile::new("t.yaml", text)).unwrap_err();
        findings.iter().map(|f| f.code.clone()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn plain_scalars_follow_yaml_1_2() {
        let text = "a: yes\nb: 1.5\nc: 0x10\nd: '1'\ne:\nf: 12:30\ng: 2026-11-20\nh: 1.36.3\ni: -3";
        let expected = json!({"a": "yes", "b": 1.5, "c": 16, "d": "1", "e": null, "f": "12:30",
            "g": "2026-11-20", "h": "1.36.3", "i": -3});
        assert_eq!(value(text), expected);
    }

    #[test]
    fn short_tags_become_long_ones() {
        assert_eq!(value("!GetAtt Queue.Arn"), json!({"Fn::GetAtt": ["Queue", "Arn"]}));
        assert_eq!(
            value("a: !Sub [x, {b: !Ref C}]"),
            json!({"a": {"Fn::Sub": ["x", {"b": {"Ref": "C"}}]}})
        );
    }

    #[test]
    fn what_is_wrong_has_its_code() {
        assert_eq!(code("a: 1\na: 2\nb: 1\nb: 1"), "yaml/duplicate-key yaml/duplicate-key");
        assert_eq!(code("mode: 0644"), "yaml/ambiguous-number");
        assert_eq!(code("a: !Foo x"), "yaml/unknown-tag");
        assert_eq!(code("a: [1"), "yaml/syntax");
        assert_eq!(code("<<: {a: 1}"), "yaml/merge-key");
        assert_eq!(code(&("[".repeat(200) + &"]".repeat(200))), "yaml/too-deep");
        assert_eq!(code("a: 1\n---\nb: 2"), "yaml/syntax");
    }

    #[test]
    fn a_bomb_of_aliases_is_stopped() {
        let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for i in 1..9 {
            let refs = vec![format!("*a{}", i - 1); 10].join(",");
            text.push_str(&format!("a{i}: &a{i} [{refs}]\n"));
        }
        assert_eq!(code(&text), "yaml/too-large");
    }

    #[test]
    fn places_are_those_of_the_text() {
        let file = SourceFile::new("t.yaml", "a:\n  b: {c: [1, two]}\n");
        let node = read(&file).unwrap();
        let two = node.at(&["a", "b", "c", "1"]).unwrap();
        assert_eq!(two.origin.to_string(), "t.yaml:2:14");
        assert_eq!(&file.text[two.origin.range()], "two");
        assert_eq!(&file.text[node.at(&["a", "b"]).unwrap().origin.range()], "{c: [1, two]}");
        assert_eq!(node.at(&["a", "b"]).unwrap().key_origin().to_string(), "t.yaml:2:3");
    }
}
