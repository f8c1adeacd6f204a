//! Findings in rustc's look: title, place, source line, caret, notes, help.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::{Finding, Findings, Severity};
use crate::origin::Origin;

/// The widest line of source that is shown whole.
const WIDTH: usize = 140;

/// The widest line of a note: what 80 columns leave beside `   = note: `.
const NOTE: usize = 68;

/// Returns findings as text, each followed by an empty line.
#[must_use]
pub fn findings_text(findings: &Findings, styled: bool) -> String {
    let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.term_width(WIDTH);
    findings.iter().map(|f| format!("{}\n\n", one(f, &renderer))).collect()
}

/// Returns a text without anything that a terminal would obey: what plugins and others say is shown, and does nothing.
#[must_use]
pub fn plain(text: &str) -> String {
    let obeyed = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if obeyed(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn one(finding: &Finding, renderer: &Renderer) -> String {
    let finding = &Finding {
        message: plain(&finding.message),
        label: finding.label.as_deref().map(plain),
        notes: finding.notes.iter().map(|note| plain(note)).collect(),
        help: finding.help.iter().map(|help| plain(help)).collect(),
        ..finding.clone()
    };
    let level = match finding.severity {
        Severity::Fatal => Level::ERROR.with_name("fatal"),
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(finding.message.as_str()).id(finding.code.as_str());
    let mut group = Group::with_title(title);
    let mut places: Vec<(&Origin, Option<&str>)> =
        finding.origin.iter().map(|o| (o, finding.label.as_deref())).collect();
    places.extend(finding.related.iter().map(|(origin, label)| (origin, Some(label.as_str()))));
    // Places in one file are shown together; places without text are notes.
    let mut shown: Vec<&Origin> = Vec::new();
    let shows = |origin: &Origin| origin.has_text() && !crate::name::holds_secret(line_of(origin));
    for (origin, _) in places.iter().filter(|(o, _)| shows(o)) {
        if shown.iter().any(|s| s.file() == origin.file()) {
            continue;
        }
        shown.push(origin);
        let mut snippet = Snippet::source(origin.file().text.as_str())
            .path(origin.file().name.as_str())
            .fold(true);
        for (i, (place, label)) in
            places.iter().enumerate().filter(|(_, (p, _))| p.file() == origin.file())
        {
            let kind = if i == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
            snippet = snippet.annotation(kind.span(first_line(place)).label(*label));
        }
        group = group.element(snippet);
    }
    for (origin, label) in places.iter().filter(|(o, _)| !shows(o)) {
        let label = label.map(|l| format!(": {l}")).unwrap_or_default();
        group = group.element(Level::NOTE.no_name().message(format!("at {origin}{label}")));
    }
    for note in &finding.notes {
        group = group.element(Level::NOTE.message(wrapped(note)));
    }
    for help in &finding.help {
        group = group.element(Level::HELP.message(wrapped(help)));
    }
    // Empty lines of a help are indented like the others: nobody sees that but editors and diffs.
    let text = renderer.render(&[group]);
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// Returns a note's text in lines that fit a terminal of 80 columns. Indented lines are there to be copied.
fn wrapped(text: &str) -> String {
    let options = textwrap::Options::new(NOTE)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    let line = |line: &str| {
        if line.starts_with(' ') { line.to_owned() } else { textwrap::fill(line, &options) }
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the whole line a place is in.
fn line_of(origin: &Origin) -> &str {
    let text = origin.file().text.as_str();
    let at = origin.range().start;
    let start = text[..at].rfind('\n').map_or(0, |p| p + 1);
    &text[start..text[at..].find('\n').map_or(text.len(), |p| at + p)]
}

/// Returns the part of a place that lies on its first line: carets under ten lines help nobody.
fn first_line(origin: &Origin) -> std::ops::Range<usize> {
    let range = origin.range();
    let text = &origin.file().text[range.clone()];
    let end = text.find('\n').map_or(range.end, |p| range.start + p);
    range.start..end
}
