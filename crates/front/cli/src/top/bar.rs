//! Usage against guarantee and limit in a few characters.
//!
//! `████░│······▐···`: filled to the usage, `░` where that is below the guarantee, `│` the
//! guarantee, `▐` the limit, dots up to the capacity of the whole bar. Of several values in one
//! cell the most important is shown: limit, guarantee, usage.
//!
//! Worked example: 200 of 1000 Mb/s in ten cells, 500 guaranteed, 800 at most: `██░░░│··▐·`.

use weir_units::Bandwidth;

/// A piece of a bar, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    Used,
    Unused,
    Guarantee,
    Limit,
    Free,
}

impl Piece {
    pub(crate) fn glyph(self) -> char {
        match self {
            Self::Used => '█',
            Self::Unused => '░',
            Self::Guarantee => '│',
            Self::Limit => '▐',
            Self::Free => '·',
        }
    }
}

/// A bar of `width` pieces for the capacity `whole`; a usage beyond it fills it.
pub(crate) fn bar(
    width: usize,
    whole: Bandwidth,
    usage: Bandwidth,
    guarantee: Bandwidth,
    limit: Bandwidth,
) -> Vec<Piece> {
    let cells = |rate: Bandwidth, up: bool| {
        let (rate, whole) = (u128::from(rate.min(whole).bps()) * width as u128, u128::from(whole.bps().max(1)));
        (if up { rate.div_ceil(whole) } else { rate / whole }) as usize
    };
    let (used, guaranteed) = (cells(usage, true).min(width), cells(guarantee, false));
    let mut pieces = vec![Piece::Free; width];
    for (cell, piece) in pieces.iter_mut().enumerate() {
        if cell < used {
            *piece = Piece::Used;
        } else if cell < guaranteed {
            *piece = Piece::Unused;
        }
    }
    if guaranteed > used && guaranteed > 0 {
        pieces[guaranteed.min(width - 1)] = Piece::Guarantee;
    }
    if limit < whole && width > 0 {
        pieces[cells(limit, false).min(width - 1)] = Piece::Limit;
    }
    pieces
}

/// The same as text.
#[cfg(test)]
pub(crate) fn text(pieces: &[Piece]) -> String {
    pieces.iter().map(|piece| piece.glyph()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_guarantee_and_limit_stand_where_they_are() {
        let m = Bandwidth::from_mbps;
        let none = Bandwidth::UNLIMITED;
        for (usage, guarantee, limit, expected) in [
            (m(200), m(500), m(800), "██░░░│··▐·"),
            (m(0), m(0), none, "··········"),
            (m(1), m(0), none, "█·········"),
            (m(500), m(500), m(500), "█████▐····"),
            (m(700), m(500), none, "███████···"),
            (m(1000), m(0), none, "██████████"),
            (m(2000), m(0), m(2000), "██████████"),
            (m(0), m(1000), none, "░░░░░░░░░│"),
            (m(100), m(0), m(0), "▐·········"),
        ] {
            assert_eq!(text(&bar(10, m(1000), usage, guarantee, limit)), expected, "{usage} {guarantee} {limit}");
        }
        assert_eq!(text(&bar(0, m(1), m(1), m(1), m(0))), "");
        assert_eq!(text(&bar(3, m(0), m(1), m(0), none)), "···");
    }
}
