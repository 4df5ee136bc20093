//! Charts and pages of results.
//!
//! Problem: a run produces thousands of numbers, which are judged visually: over time, against
//! published values, and between backends. The output must be readable anywhere, years later,
//! without a server, a font or a script.
//!
//! Approach: plain data in, text out. A [`Chart`] becomes one SVG. A [`Page`] collects headings,
//! tables and charts in one HTML file with an embedded style sheet. This crate does not depend on
//! the simulator or on Linux: callers pass names, numbers and units.
//!
//! | module | holds |
//! |---|---|
//! | [`chart`] | the content of a chart |
//! | `canvas` | lines, rectangles and texts in SVG |
//! | `draw`, `draw_series` | the layout of a chart, and the content of its plot |
//! | `scale` | units, ticks and positions on an axis |
//! | `labels` | placement of labels without overlap |
//! | `map` | slots coloured by what occupies them |
//! | [`page`], `table` | HTML |
//! | `escape` | escaping of text |
//! | [`json`] | JSON in lines that people can read |
//!
//! Worked example:
//!
//! ```
//! use weir_report::{Axis, Chart, Page, Panel, Reference, Series, Unit, side_by_side};
//!
//! let (x, y) = (Axis::new("time", Unit::Time), Axis::new("bandwidth", Unit::Bandwidth));
//! let mut chart = Chart::new(x, y);
//! chart.series.push(Series::new("a", vec![(0.5, 298e6), (1.5, 301e6)]));
//! chart.references.push(Reference::new("300 Mb/s", 300e6).of(0));
//! let page = Page::new("Two backends")
//!     .paragraph("The same scenario, simulated and on Linux.")
//!     .push(side_by_side(&[Panel::new("Simulator", &chart), Panel::new("Linux", &chart)]))
//!     .to_html();
//! assert!(page.contains("<svg") && page.contains("Mb/s"));
//! ```

mod canvas;
pub mod chart;
mod draw;
mod escape;
pub mod json;
mod labels;
mod map;
pub mod page;
mod scale;
mod table;

pub use chart::{Axis, Chart, Look, Marker, Phase, Reference, Series, Style};
pub use map::{MapRow, SlotMap};
pub use page::{Html, Page, Panel, side_by_side};
pub use scale::{Unit, whole};
pub use table::{Cell, Table};
