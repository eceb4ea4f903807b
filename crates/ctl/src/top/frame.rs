//! How the dashboard looks: a [`State`] drawn into a frame of any size.

use super::opened_frame::draw_opened;
use super::overview::{ConnectionLine, List, Order, Overview, QueueLine};
use super::state::State;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Sparkline, Table, TableState};

/// Lines above the list, without those of the past.
const HEAD_LINES: u16 = 5;

/// Lines of the past where there is room, and where a list leaves more of the screen empty.
const PAST_LINES: u16 = 3;
const PAST_LINES_MAX: u16 = 13;

/// Lines of a screen on which there is room for the past, and for one line of it more for each so many more.
const PAST_ROOM: u16 = 24;
const PAST_STEP: u16 = 4;

/// Lines of the list's own: the names of columns.
const NAME_LINES: u16 = 1;

/// Lines below the list.
const FOOT_LINES: u16 = 1;

/// Columns of the names of the past.
const LABEL_COLUMNS: u16 = 10;

/// The mark of a moment in which nothing moved.
const BASELINE: &str = "▁";

pub(super) const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
pub(super) const WEAK: Style = Style::new().add_modifier(Modifier::DIM);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const BARS: Style = Style::new().fg(Color::Cyan);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Rows of a list on a screen with so many lines.
pub fn rows_on(lines: u16) -> u32 {
    lines.saturating_sub(above(lines) + NAME_LINES + FOOT_LINES).max(1).into()
}

fn above(lines: u16) -> u16 {
    let past = match lines.checked_sub(PAST_ROOM) {
        Some(more) => (PAST_LINES + more / PAST_STEP).min(PAST_LINES_MAX),
        None => 0,
    };
    HEAD_LINES + past
}

/// Lines of the past: those that are its own, and those that the list leaves empty.
fn past_lines(state: &State, lines: u16) -> u16 {
    let own = above(lines) - HEAD_LINES;
    let room = lines.saturating_sub(HEAD_LINES + own + NAME_LINES + FOOT_LINES);
    let shown =
        state.overview.as_ref().map_or(0, |overview| overview.queues.len() + overview.connections.len());
    let is_list = state.opened.is_none() && own > 0;
    let empty = if is_list { room.saturating_sub(u16::try_from(shown).unwrap_or(u16::MAX)) } else { 0 };
    own.max((own + empty).min(PAST_LINES_MAX))
}

/// Draws it.
pub fn draw(frame: &mut Frame<'_>, state: &State) {
    let area = frame.area();
    let past = past_lines(state, area.height);
    let [head, past, list, foot] = Layout::vertical([
        Constraint::Length(HEAD_LINES),
        Constraint::Length(past),
        Constraint::Min(NAME_LINES),
        Constraint::Length(FOOT_LINES),
    ])
    .areas(area);
    match &state.overview {
        Some(overview) => {
            frame.render_widget(Paragraph::new(totals(state, overview)), head);
            draw_past(frame, state, past);
            match &state.opened {
                Some([vhost, name]) => draw_opened(frame, overview.opened.as_ref(), vhost, name, list),
                None => draw_list(frame, state, overview, list),
            }
        }
        None => frame.render_widget(Paragraph::new("The node is being asked ..."), head),
    }
    frame.render_widget(Paragraph::new(foot_line(state)), foot);
    if state.is_help {
        draw_help(frame, area);
    }
}

/// The figures of the node as a whole.
fn totals(state: &State, overview: &Overview) -> Vec<Line<'static>> {
    let strong = |text: String| Span::styled(text, STRONG);
    let mut first = vec![
        strong(overview.node.clone()),
        Span::raw(format!("  {}  up {}  ", overview.product, uptime(overview.uptime_s))),
    ];
    match overview.alarms.is_empty() {
        true => first.push(Span::styled("no alarms", WEAK)),
        false => first.push(Span::styled(format!("ALARM: {}", overview.alarms.join(", ")), BAD)),
    }
    if state.is_paused {
        first.push(Span::styled("  paused", BAD));
    }
    let rate = |pick: fn(&super::state::Rates) -> f64| state.rates.as_ref().map(pick);
    let now = &overview.now;
    let field = |name: &str, value: String| {
        vec![Span::styled(format!("{name} "), WEAK), strong(value), Span::raw("  ")]
    };
    let line = |fields: Vec<Vec<Span<'static>>>| Line::from(fields.concat());
    vec![
        Line::from(first),
        line(vec![
            field("in/s", per_second(rate(|rates| rates.published))),
            field("out/s", per_second(rate(|rates| rates.delivered))),
            field("confirmed/s", per_second(rate(|rates| rates.confirmed))),
            field("acked/s", per_second(rate(|rates| rates.acknowledged))),
            field("redelivered/s", per_second(rate(|rates| rates.redelivered))),
        ]),
        line(vec![
            field("ready", count(now.ready)),
            field("unacked", count(now.unacked)),
            field("queues", count(now.queues)),
            field("streams", format!("{} with {}", count(now.streams), count(now.kept))),
            field("consumers", count(now.consumers)),
            field("connections", count(now.connections)),
        ]),
        line(vec![
            field("memory", format!("{} of {}", bytes(now.memory[0]), bytes(now.memory[1]))),
            field("disk free", format!("{} (limit {})", bytes(now.disk[0]), bytes(now.disk[1]))),
            field(
                "written/s",
                rate(|rates| rates.written_bytes).map_or("-".into(), |rate| bytes(rate as u64)),
            ),
            field("flushes/s", per_second(rate(|rates| rates.flushes))),
            field("a flush", format!("{:.2} ms", now.flush_ns as f64 / 1e6)),
        ]),
        Line::default(),
    ]
}

fn draw_past(frame: &mut Frame<'_>, state: &State, area: Rect) {
    if area.height < PAST_LINES {
        return;
    }
    let [bars, _] = Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(area);
    let halves: [Rect; 2] = Layout::horizontal([Constraint::Fill(1); 2]).spacing(2).areas(bars);
    for (at, name) in ["in", "out"].iter().enumerate() {
        let [label, bar] =
            Layout::horizontal([Constraint::Length(LABEL_COLUMNS), Constraint::Min(1)]).areas(halves[at]);
        let room = state.past.len().saturating_sub(bar.width.into());
        let values: Vec<u64> = state.past.iter().skip(room).map(|both| both[at]).collect();
        let most = values.iter().max().map_or(String::new(), |most| format!("{} max", count(*most)));
        let lines = vec![Line::styled(*name, WEAK), Line::styled(most, WEAK)];
        frame.render_widget(Paragraph::new(lines), label);
        let zeroes: Vec<bool> = values.iter().map(|value| *value == 0).collect();
        frame.render_widget(Sparkline::default().data(values).style(BARS), bar);
        // A time in which nothing moved is no time that was not looked at.
        let bottom = bar.bottom().saturating_sub(1);
        for (column, _) in zeroes
            .iter()
            .enumerate()
            .filter(|(column, is_zero)| **is_zero && *column < usize::from(bar.width))
        {
            if let Some(cell) = frame.buffer_mut().cell_mut((bar.x + column as u16, bottom)) {
                cell.set_symbol(BASELINE).set_style(WEAK);
            }
        }
    }
}

/// A column: its title, its order of rows, its width, and whether numbers stand in it.
struct Column {
    title: &'static str,
    order: Option<Order>,
    width: Constraint,
}

const fn column(title: &'static str, order: Option<Order>, width: Constraint) -> Column {
    Column { title, order, width }
}

const QUEUES: &[Column] = &[
    column("NAME", Some(Order::Name), Constraint::Fill(3)),
    column("VHOST", None, Constraint::Fill(1)),
    column("TYPE", None, Constraint::Length(7)),
    column("READY", Some(Order::Ready), Constraint::Length(9)),
    column("UNACKED", Some(Order::Unacked), Constraint::Length(9)),
    column("IN/s", Some(Order::In), Constraint::Length(8)),
    column("OUT/s", Some(Order::Out), Constraint::Length(8)),
    column("CONSUMERS", Some(Order::Consumers), Constraint::Length(11)),
    column("MEMORY", Some(Order::Memory), Constraint::Length(9)),
];

const CONNECTIONS: &[Column] = &[
    column("NAME", Some(Order::Name), Constraint::Fill(3)),
    column("USER", None, Constraint::Fill(1)),
    column("VHOST", None, Constraint::Fill(1)),
    column("PROTOCOL", None, Constraint::Length(15)),
    column("STATE", None, Constraint::Length(9)),
    column("CHANNELS", Some(Order::Channels), Constraint::Length(10)),
    column("IN B/s", Some(Order::In), Constraint::Length(9)),
    column("OUT B/s", Some(Order::Out), Constraint::Length(9)),
];

fn draw_list(frame: &mut Frame<'_>, state: &State, overview: &Overview, area: Rect) {
    let (columns, rows): (&[Column], Vec<Vec<String>>) = match state.list {
        List::Queues => (QUEUES, overview.queues.iter().map(queue).collect()),
        List::Connections => (CONNECTIONS, overview.connections.iter().map(connection).collect()),
    };
    let (order, is_reversed) = state.order();
    let title = |column: &Column| {
        let is_own = column.order == Some(order);
        // Numbers are larger above, names are not.
        let is_down = is_reversed == (order == Order::Name);
        let mark = if !is_own {
            ""
        } else if is_down {
            "▼"
        } else {
            "▲"
        };
        let style = if is_own { STRONG.add_modifier(Modifier::UNDERLINED) } else { STRONG };
        Line::styled(format!("{}{mark}", column.title), style).alignment(side(column))
    };
    let header = Row::new(columns.iter().map(title));
    let line = |cells: &Vec<String>| {
        let cells = cells.iter().zip(columns);
        Row::new(
            cells.map(|(cell, column)| Line::raw(visible(cell)).alignment(side(column))).collect::<Vec<_>>(),
        )
    };
    let is_empty = rows.is_empty();
    let table = Table::new(rows.iter().map(line), columns.iter().map(|column| column.width))
        .header(header)
        .row_highlight_style(CHOSEN);
    let mut chosen = TableState::default().with_selected((!is_empty).then_some(state.chosen));
    frame.render_stateful_widget(table, area, &mut chosen);
}

fn side(column: &Column) -> Alignment {
    match column.order {
        None | Some(Order::Name) => Alignment::Left,
        Some(_) => Alignment::Right,
    }
}

/// A name as a terminal may show it: characters that would move the cursor are spelled out.
pub(super) fn visible(text: &str) -> String {
    let spell = |letter: char| {
        if letter.is_control() { letter.escape_default().to_string() } else { letter.to_string() }
    };
    text.chars().map(spell).collect()
}

fn queue(line: &QueueLine) -> Vec<String> {
    let [came, went] = rates(line.rates);
    vec![
        line.name.clone(),
        line.vhost.clone(),
        line.kind.clone(),
        count(line.ready),
        count(line.unacked),
        came,
        went,
        count(line.consumers.into()),
        bytes(line.memory),
    ]
}

fn connection(line: &ConnectionLine) -> Vec<String> {
    let [came, went] =
        line.rates.map_or(["-".into(), "-".into()], |both| both.map(|rate| bytes(rate as u64)));
    vec![
        line.name.clone(),
        line.user.clone(),
        line.vhost.clone(),
        line.protocol.clone(),
        line.state.clone(),
        count(line.channels),
        came,
        went,
    ]
}

fn rates(both: Option<[f64; 2]>) -> [String; 2] {
    [0, 1].map(|at| per_second(both.map(|both| both[at])))
}

fn foot_line(state: &State) -> Line<'static> {
    if state.is_searching {
        return Line::from(vec![
            Span::styled("search: ", STRONG),
            Span::raw(format!("{}_", visible(&state.search))),
        ]);
    }
    if let Some(why) = &state.trouble {
        return Line::styled(visible(why), BAD);
    }
    if state.opened.is_some() {
        let seconds = state.interval_ms as f64 / 1e3;
        return Line::styled(format!("every {seconds:.2} s | Escape back  ? help  q end"), WEAK);
    }
    let name = match state.list {
        List::Queues => "queues",
        List::Connections => "connections",
    };
    let matched = state.overview.as_ref().map_or(0, |overview| overview.matched);
    let from = if matched == 0 { 0 } else { state.skip + 1 };
    let to = (state.skip + u64::from(state.rows)).min(matched);
    let search =
        if state.search.is_empty() { String::new() } else { format!(" with \"{}\"", visible(&state.search)) };
    Line::styled(
        format!(
            "{from}-{to} of {matched} {name}{search}, every {:.2} s | ? help  q end",
            state.interval_ms as f64 / 1e3
        ),
        WEAK,
    )
}

const HELP: [&str; 12] = [
    "Tab, 1, 2     queues, connections",
    "Enter         opens the queue: consumers, messages at its head",
    "Escape        back to the list",
    "Left, Right   order by another column",
    "r             the other way round",
    "/             search in names and virtual hosts; Escape ends it",
    "Up, Down, PageUp, PageDown, Home, End",
    "              go through the list",
    "Space         pause, go on",
    "+, -          look more, less often",
    "?             this",
    "q, Ctrl-C     end",
];

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let width = HELP.iter().map(|line| line.len() as u16).max().unwrap_or(0) + 4;
    let height = HELP.len() as u16 + 2;
    let (width, height) = (width.min(area.width), height.min(area.height));
    let own =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    let lines: Vec<Line<'_>> = HELP.iter().map(|line| Line::raw(format!(" {line}"))).collect();
    frame.render_widget(Clear, own);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title("keys")), own);
}

/// A number of things in a few characters.
fn count(number: u64) -> String {
    if number < 100_000 {
        number.to_string()
    } else {
        scaled(number as f64, 1000.0, &["", "k", "M", "G", "T", "P", "E"])
    }
}

fn bytes(number: u64) -> String {
    scaled(number as f64, 1000.0, &[" B", " kB", " MB", " GB", " TB", " PB", " EB"])
}

fn per_second(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate > 0.0 && rate < 10.0 => format!("{rate:.1}"),
        Some(rate) => count(rate.round() as u64),
    }
}

fn scaled(number: f64, step: f64, units: &[&str]) -> String {
    let (mut number, mut at) = (number, 0);
    while number >= step && at + 1 < units.len() {
        number /= step;
        at += 1;
    }
    match at {
        0 => format!("{number}{}", units[0]),
        _ if number < 10.0 => format!("{number:.2}{}", units[at]),
        _ if number < 100.0 => format!("{number:.1}{}", units[at]),
        _ => format!("{number:.0}{}", units[at]),
    }
}

fn uptime(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match days {
        0 => format!("{hours:02}:{minutes:02}:{:02}", seconds % 60),
        _ => format!("{days}d {hours:02}:{minutes:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::once;
    use super::super::overview::{Counted, Gauges, Opened};
    use super::super::state::Key;
    use super::*;

    fn overview(second: u64) -> Overview {
        let line = |number: u64| QueueLine {
            name: format!("orders-{number}"),
            vhost: "/".into(),
            kind: "quorum".into(),
            ready: 1_234_567 / (number + 1),
            rates: (second > 1).then_some([20.0 * number as f64, 0.25]),
            ..QueueLine::default()
        };
        Overview {
            at_ns: second * 1_000_000_000,
            node: "rabbit@hare".into(),
            product: "Leveret 0.1.0".into(),
            uptime_s: 93_784,
            counted: Counted { published: second * 1500, delivered: second * 3, ..Counted::default() },
            now: Gauges {
                memory: [120_000_000, 8_000_000_000],
                queues: 50_000,
                streams: 2,
                kept: 9000,
                ..Gauges::default()
            },
            matched: 50_000,
            queues: (0..20).map(line).collect(),
            ..Overview::default()
        }
    }

    fn state() -> State {
        let mut state = State::new(List::Queues, None, "", 1000);
        state.resize(rows_on(30));
        (1..3).for_each(|second| state.hear(&state.asked(), overview(second)));
        state
    }

    fn check(state: &State, [width, height]: [u16; 2], expected: &[&str]) {
        let text = once::text(state, width, height);
        expected.iter().for_each(|part| assert!(text.contains(part), "{part:?} is not in:\n{text}"));
    }

    #[test]
    fn a_frame_tells_of_the_node_and_its_queues() {
        check(
            &state(),
            [120, 30],
            &[
                "rabbit@hare  Leveret 0.1.0  up 1d 02:03  no alarms\n",
                "in/s 1500  out/s 3.0",
                "queues 50000  streams 2 with 9000",
                "in        ",
                "1500 max",
                "memory 120 MB of 8.00 GB",
                "READY▼",
                "\norders-0",
                "1.23M",
                "orders-18",
                "1-19 of 50000 queues, every 1.00 s | ? help  q end",
            ],
        );
    }

    #[test]
    fn keys_show() {
        let mut own = state();
        own.key(Key::Char('?'));
        check(&own, [120, 30], &["┌keys─", "order by another column"]);
        own.key(Key::Escape);
        own.key(Key::Char('/'));
        own.key(Key::Char('o'));
        check(&own, [120, 30], &["search: o_"]);
        own.key(Key::Enter);
        check(&own, [120, 30], &["with \"o\""]);
        own.key(Key::Left);
        own.key(Key::Left);
        own.key(Key::Left);
        check(&own, [120, 30], &["NAME▲"]);
        own.key(Key::Char(' '));
        check(&own, [120, 30], &["paused"]);
        own.miss("it is not running".into());
        check(&own, [120, 30], &["it is not running", "orders-0"]);
        own.key(Key::Tab);
        check(&own, [120, 30], &["PROTOCOL"]);
    }

    #[test]
    fn a_queue_opens() {
        let mut own = state();
        own.key(Key::Enter);
        check(&own, [120, 30], &["orders-0 in /", "being asked for", "Escape back"]);
        let opened = Opened {
            properties: vec![["type".into(), "quorum".into()]],
            consumer_count: 1,
            consumers: vec![["tag".into(), "10.0.0.1:1".into(), "10".into(), "active".into()]],
            messages: vec![["key".into(), "5".into(), "a\u{1b}b".into()]],
            trouble: None,
        };
        own.hear(&own.asked(), Overview { opened: Some(opened), ..overview(9) });
        let expected =
            ["type quorum", "1 consumer", "  tag  10.0.0.1:1  prefetch 10  active", "  key  5 B  a\\u{1b}b"];
        check(&own, [120, 30], &expected);
        own.key(Key::Escape);
        check(&own, [120, 30], &["READY▼"]);
    }

    #[test]
    fn nothing_that_moves_is_a_line() {
        let mut own = State::new(List::Queues, None, "", 1000);
        (1..9).for_each(|second| {
            own.hear(&own.asked(), Overview { counted: Counted::default(), ..overview(second) })
        });
        check(&own, [120, 30], &["▁▁▁▁▁▁▁"]);
    }

    #[test]
    fn a_short_list_leaves_its_room_to_the_past() {
        let mut own = state();
        assert_eq!(past_lines(&own, 30), 4);
        own.hear(&own.asked(), Overview { queues: Vec::new(), matched: 0, ..overview(9) });
        assert_eq!(past_lines(&own, 30), PAST_LINES_MAX);
        assert_eq!(past_lines(&own, 20), 0);
    }

    #[test]
    fn alarms_and_the_first_look_show() {
        let mut own = State::new(List::Queues, None, "", 1000);
        check(&own, [80, 24], &["The node is being asked"]);
        own.hear(&own.asked(), Overview { alarms: vec!["disk".into()], ..overview(1) });
        check(&own, [120, 24], &["ALARM: disk", "in/s - "]);
    }

    #[test]
    fn names_move_no_cursor() {
        let mut own = state();
        let line = QueueLine { name: "a\u{1b}[2Jb\nc".into(), ..QueueLine::default() };
        own.hear(&own.asked(), Overview { queues: vec![line], matched: 1, ..overview(9) });
        check(&own, [120, 30], &["a\\u{1b}[2Jb\\nc"]);
    }

    #[test]
    fn any_size_is_drawn() {
        let mut own = state();
        for is_help in [false, true] {
            own.is_help = is_help;
            for width in [1, 2, 7, 40, 300] {
                for height in [1, 2, 5, 6, 8, 23, 24, 100] {
                    own.resize(rows_on(height));
                    once::text(&own, width, height);
                }
            }
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0, 99_999, 100_000, 1_234_567].map(count), ["0", "99999", "100k", "1.23M"]);
        assert_eq!([0, 999, 1000, 45_600].map(bytes), ["0 B", "999 B", "1.00 kB", "45.6 kB"]);
        assert_eq!(bytes(u64::MAX), "18.4 EB");
        assert_eq!([None, Some(0.0), Some(0.25), Some(12.6)].map(per_second), ["-", "0", "0.2", "13"]);
        assert_eq!([59, 3600, 86_400].map(uptime), ["00:00:59", "01:00:00", "1d 00:00"]);
    }
}
