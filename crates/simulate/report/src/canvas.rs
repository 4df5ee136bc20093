//! Lines, rectangles and texts in SVG.
//!
//! Problem: the SVG backend of plotters has a resolution of one pixel, which is visible as steps in
//! lines. It supports neither a title nor dashed lines. Approach: everything is drawn [`FINE`]
//! times larger, and the view box scales it back. The opening tag is replaced by one with a title
//! for screen readers. Dashes are inserted into the text of the SVG.
//!
//! Colours are attributes, so that an SVG file is complete on a white background. The style sheet
//! of a page with a dark background overrides these values (see [`crate::page`]).

use crate::escape::{escape, printable};
use plotters::backend::DrawingBackend;
use plotters::backend::SVGBackend;

use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, IntoFont, RGBColor, ShapeStyle, TextStyle};

/// Sub-pixels per pixel.
const FINE: f64 = 10.0;
/// Ratio of a font's height, which plotters expects, to its size, which SVG expects; the backend
/// divides by it.
const FONT_HEIGHT: f64 = 1.24;

/// Texts and axes.
pub(crate) const INK: RGBColor = RGBColor(0x1F, 0x24, 0x2B);
/// Secondary texts.
pub(crate) const MUTED: RGBColor = RGBColor(0x5B, 0x64, 0x70);
/// Grid lines.
pub(crate) const GRID: RGBColor = RGBColor(0xE4, 0xE7, 0xEB);
/// Every other phase.
pub(crate) const SHADE: RGBColor = RGBColor(0xF4, 0xF6, 0xF8);
/// The background.
pub(crate) const PAPER: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);

/// Okabe and Ito's palette ("Color Universal Design", 2008), ordered so that neighbours also differ
/// in lightness. Its yellow is omitted, because it is not visible on white.
pub(crate) const PALETTE: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x56, 0xB4, 0xE9),
];

/// A position in pixels.
pub(crate) type At = (f64, f64);

/// The part of a text that is at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The font of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Font {
    pub(crate) size: f64,
    pub(crate) bold: bool,
    pub(crate) colour: RGBColor,
}

/// Draws a picture of `size` pixels and returns the SVG.
pub(crate) fn draw(size: (u32, u32), title: &str, paint: impl FnOnce(&mut Pen<'_>)) -> String {
    let fine = (size.0 * FINE as u32, size.1 * FINE as u32);
    let mut svg = String::new();
    let mut pen = Pen { backend: SVGBackend::with_string(&mut svg, fine), lines: 0, dashes: Vec::new() };
    paint(&mut pen);
    pen.check(|backend| backend.present());
    let dashes = std::mem::take(&mut pen.dashes);
    drop(pen);
    let (_, body) = svg.split_once(">\n").unwrap_or_default();
    let body = with_dashes(body, &dashes);
    let title = escape(title);
    let (width, height) = size;
    format!(
        "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {} {}\" stroke-linejoin=\"round\" role=\"img\" aria-label=\"{title}\">\n\
         <title>{title}</title>\n{body}",
        fine.0, fine.1
    )
}

/// Draws lines, rectangles and texts. Positions are in pixels from the top left.
pub(crate) struct Pen<'a> {
    backend: SVGBackend<'a>,
    /// Number of lines drawn.
    lines: usize,
    /// The index of each dashed line, with its lengths on and off: the backend supports solid lines
    /// only.
    dashes: Vec<(usize, (f64, f64))>,
}

impl<'a> Pen<'a> {
    fn check<E: std::fmt::Debug>(&mut self, draw: impl FnOnce(&mut SVGBackend<'a>) -> Result<(), E>) {
        if let Err(error) = draw(&mut self.backend) {
            unreachable!("writing to a string: {error:?}");
        }
    }

    /// A line through `points`.
    pub(crate) fn line(&mut self, points: &[At], colour: RGBColor, width: f64) {
        let style = ShapeStyle { color: colour.to_rgba(), filled: false, stroke_width: fine(width) as u32 };
        self.lines += 1;
        self.check(|backend| backend.draw_path(points.iter().map(|at| (fine(at.0), fine(at.1))), &style));
    }

    /// A dashed line through `points`; the lengths on and off are in pixels.
    pub(crate) fn dashed(&mut self, points: &[At], colour: RGBColor, width: f64, on_off: (f64, f64)) {
        self.dashes.push((self.lines, on_off));
        self.line(points, colour, width);
    }

    /// A filled rectangle.
    pub(crate) fn fill(&mut self, from: At, to: At, colour: RGBColor, opacity: f64) {
        let style = ShapeStyle { color: colour.mix(opacity), filled: true, stroke_width: 0 };
        let (from, to) = ((fine(from.0), fine(from.1)), (fine(to.0), fine(to.1)));
        self.check(|backend| backend.draw_rect(from, to, &style, true));
    }

    /// A filled circle.
    pub(crate) fn dot(&mut self, at: At, radius: f64, colour: RGBColor) {
        let style = ShapeStyle { color: colour.to_rgba(), filled: true, stroke_width: 0 };
        let radius = fine(radius).unsigned_abs();
        self.check(|backend| backend.draw_circle((fine(at.0), fine(at.1)), radius, &style, true));
    }

    /// A text. Its lower-case letters are vertically centred on the position.
    pub(crate) fn text(&mut self, text: &str, at: At, anchor: Anchor, font: Font) {
        let style = if font.bold { FontStyle::Bold } else { FontStyle::Normal };
        let h_pos = match anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        let style = TextStyle::from(("sans-serif", font.size * FINE * FONT_HEIGHT, style).into_font())
            .color(&font.colour)
            .pos(Pos::new(h_pos, VPos::Center));
        let text: String = text.chars().map(printable).collect();
        self.check(|backend| backend.draw_text(&text, &style, (fine(at.0), fine(at.1))));
    }
}

/// Converts pixels to sub-pixels. Positions far outside saturate at the range of the backend's
/// integers.
fn fine(pixels: f64) -> i32 {
    (pixels * FINE).round() as i32
}

/// Inserts dashes into the polylines in `body`: (index of the polyline, (length on, length off)).
fn with_dashes(body: &str, dashes: &[(usize, (f64, f64))]) -> String {
    let mut out = String::with_capacity(body.len() + 32 * dashes.len());
    let mut dashes = dashes.iter().peekable();
    for (i, part) in body.split(POLYLINE).enumerate() {
        if i > 0 {
            out.push_str(POLYLINE);
            if let Some((_, (on, off))) = dashes.next_if(|(polyline, _)| *polyline == i - 1) {
                out.push_str(&format!(" stroke-dasharray=\"{} {}\"", fine(*on), fine(*off)));
            }
        }
        out.push_str(part);
    }
    out
}

/// The start of a line's element. Texts cannot contain it, since they are escaped.
const POLYLINE: &str = "<polyline";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_apply_to_their_line() {
        let at = [(0.0, 0.0), (10.0, 0.0), (10.0, 5.0)];
        let svg = draw((20, 20), "", |pen| {
            pen.line(&at, INK, 1.0);
            pen.dashed(&at, INK, 1.0, (4.0, 2.0));
            pen.line(&at, INK, 1.0);
        });
        let dashed: Vec<bool> = svg.split(POLYLINE).skip(1).map(|line| line.contains("dasharray=\"40 20\"")).collect();
        assert_eq!(dashed, [false, true, false], "{svg}");
    }

    #[test]
    fn picture_has_a_title_and_escaped_texts() {
        let font = Font { size: 12.0, bold: false, colour: INK };
        let svg = draw((100, 50), "a < b", |pen| pen.text("<x>&\u{7}", (1.0, 2.0), Anchor::Start, font));
        assert!(svg.starts_with("<svg class=\"chart\"") && svg.trim_end().ends_with("</svg>"), "{svg}");
        assert!(svg.contains("<title>a &lt; b</title>") && svg.contains("&lt;x&gt;&amp;\u{fffd}"), "{svg}");
        assert!(svg.contains("font-size=\"120"), "{svg}");
    }
}
