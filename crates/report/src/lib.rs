//! Results as pictures and pages.
//!
//! Problem: a run gives thousands of numbers, and people judge them by looking: against time, beside what
//! was published, one body beside the other. What is drawn must open anywhere, years later, without a
//! server, a font or a script.
//!
//! Approach: plain data in, text out. A [`Chart`] becomes one SVG; a [`Page`] collects headings, tables and
//! charts in one HTML file with its style inside. Nothing here knows the simulator or Linux: the callers
//! hand over names, numbers and units.
//!
//! | module | does |
//! |---|---|
//! | [`chart`] | what a chart shows, and its SVG |
//! | `canvas` | lines, boxes and texts, in SVG |
//! | `draw`, `draw_series` | the parts of a chart, and what is inside its plot |
//! | `scale` | units, ticks and places on an axis |
//! | `labels` | where a text stands without covering another |
//! | [`page`] | HTML |
//! | `escape` | text that cannot become markup |
//!
//! Worked example:
//!
//! ```
//! use weir_report::{Axis, Chart, Page, Panel, Reference, Series, Unit, side_by_side};
//!
//! let mut chart = Chart::new(Axis::new("time", Unit::Time), Axis::new("bandwidth", Unit::Bandwidth));
//! chart.series.push(Series::new("a", vec![(0.5, 298e6), (1.5, 301e6)]));
//! chart.references.push(Reference::new("300 Mb/s", 300e6).of(0));
//! let page = Page::new("Two bodies")
//!     .paragraph("The same scenario, simulated and on Linux.")
//!     .push(side_by_side(&[Panel::new("Simulator", &chart), Panel::new("Linux", &chart)]))
//!     .to_html();
//! assert!(page.contains("<svg") && page.contains("Mb/s"));
//! ```

mod canvas;
pub mod chart;
mod draw;
mod escape;
mod labels;
pub mod page;
mod scale;
mod table;

pub use chart::{Axis, Chart, Look, Marker, Phase, Reference, Series, Style};
pub use page::{Html, Page, Panel, side_by_side};
pub use scale::{Unit, whole};
pub use table::{Cell, Table};
