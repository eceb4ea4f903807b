//! The text exposition format, version 0.0.4: families of samples, each with a type and a line of help.

use std::fmt::{Display, Write};

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Untyped,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Untyped => "untyped",
        }
    }
}

/// An exposition being written.
#[derive(Debug, Default)]
pub(super) struct Text {
    out: String,
    prefix: &'static str,
    family: &'static str,
}

/// Names and values of labels.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Text {
    /// Families from now on have names that begin so.
    pub(super) fn prefix(&mut self, prefix: &'static str) {
        self.prefix = prefix;
    }

    /// Begins a family.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        self.family = name;
        let prefix = self.prefix;
        // Writing to a string does not fail.
        let _ = writeln!(self.out, "# TYPE {prefix}{name} {}\n# HELP {prefix}{name} {help}", kind.name());
    }

    /// A sample of the family.
    pub(super) fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.named("", labels, value);
    }

    fn named(&mut self, suffix: &str, labels: Labels<'_>, value: impl Display) {
        self.out.push_str(self.prefix);
        self.out.push_str(self.family);
        self.out.push_str(suffix);
        for (at, (name, value)) in labels.iter().enumerate() {
            self.out.push(if at == 0 { '{' } else { ',' });
            self.out.push_str(name);
            self.out.push_str("=\"");
            escape(value, &mut self.out);
            self.out.push('"');
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }

    /// A family of one sample.
    pub(super) fn one(&mut self, name: &'static str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    /// The buckets, the sum and the count of a histogram: how many were in each group, and the bounds of all groups but the last.
    pub(super) fn buckets<B: Display>(
        &mut self,
        labels: Labels<'_>,
        bounds: impl Iterator<Item = B>,
        groups: &[u64],
        sum: impl Display,
    ) {
        let mut count = 0;
        let bounds = bounds.map(|bound| bound.to_string()).chain(["+Inf".to_owned()]);
        for (bound, group) in bounds.zip(groups) {
            count += group;
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.named("_bucket", &labels, count);
        }
        self.named("_sum", labels, sum);
        self.named("_count", labels, count);
    }

    /// All of it.
    pub(super) fn finish(self) -> String {
        self.out
    }
}

/// A number that is told with a fraction, as RabbitMQ has it: `36.0`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Real(pub f64);

impl std::ops::Add for Real {
    type Output = Real;

    fn add(self, other: Real) -> Real {
        Real(self.0 + other.0)
    }
}

impl Display for Real {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// A bound of a histogram as dashboards ask for it: OpenMetrics' canonical numbers, which Prometheus 3 makes of any form
/// and Prometheus 2 takes as they are.
pub(super) fn canonical(bound: f64) -> String {
    if bound.abs() < 1e6 {
        return format!("{bound:?}");
    }
    let text = format!("{bound:e}");
    let (mantissa, exponent) = text.split_once('e').expect("the form has an exponent");
    format!("{mantissa}e+{exponent:0>2}")
}

fn escape(value: &str, out: &mut String) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_as_dashboards_ask_for_them() {
        for (bound, expected) in
            [(100.0, "100.0"), (1e5, "100000.0"), (1e6, "1e+06"), (5e7, "5e+07"), (1e10, "1e+10")]
        {
            assert_eq!(canonical(bound), expected);
        }
        assert_eq!(
            [Real(36.0), Real(0.5), Real(f64::NAN)].map(|real| real.to_string()),
            ["36.0", "0.5", "NaN"]
        );
    }

    #[test]
    fn families_are_written_as_scrapers_read_them() {
        let mut text = Text::default();
        text.prefix("p_");
        text.one("up", Kind::Gauge, "It is up.", 1);
        text.family("x_total", Kind::Counter, "Some.");
        text.sample(&[("queue", "a\"b\\c\nd"), ("vhost", "/")], 2.5);
        text.family("size", Kind::Histogram, "Sizes.");
        text.buckets(&[("protocol", "amqp10")], [100u64, 1000].iter(), &[1, 2, 3], 9);
        let expected = "# TYPE p_up gauge\n# HELP p_up It is up.\np_up 1\n\
            # TYPE p_x_total counter\n# HELP p_x_total Some.\n\
            p_x_total{queue=\"a\\\"b\\\\c\\nd\",vhost=\"/\"} 2.5\n\
            # TYPE p_size histogram\n# HELP p_size Sizes.\n\
            p_size_bucket{protocol=\"amqp10\",le=\"100\"} 1\np_size_bucket{protocol=\"amqp10\",le=\"1000\"} 3\n\
            p_size_bucket{protocol=\"amqp10\",le=\"+Inf\"} 6\n\
            p_size_sum{protocol=\"amqp10\"} 9\np_size_count{protocol=\"amqp10\"} 6\n";
        assert_eq!(text.finish(), expected);
    }
}
