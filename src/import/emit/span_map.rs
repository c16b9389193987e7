//! The map from the emitted text to the CUDA file. Pieces are nested like the tree that was printed, so the smallest
//! piece around a range of the text is the most precise origin of that range.

use crate::source::SourceSpan;
use clk_base::source::{Span, TextOrigin};
use std::ops::Range;

/// A range of bytes of the emitted text and its place in the CUDA file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPiece {
    pub start: u32,
    pub end: u32,
    pub source: SourceSpan,
}

/// All pieces of an emitted text, in the order of their ends; a piece follows the pieces inside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginMap {
    pieces: Vec<TextPiece>,
}

impl OriginMap {
    pub(crate) fn add(&mut self, range: Range<usize>, source: SourceSpan) {
        self.pieces.push(TextPiece { start: range.start as u32, end: range.end as u32, source });
    }

    pub fn pieces(&self) -> &[TextPiece] {
        &self.pieces
    }
}

impl TextOrigin for OriginMap {
    /// Returns the place in the CUDA file of the smallest piece around a range of the emitted text.
    fn source_of(&self, range: Range<usize>) -> Option<Span> {
        let (start, end) = (range.start as u32, range.end as u32);
        let first = self.pieces.partition_point(|piece| piece.end < end);
        // A piece follows those that it contains, so the first match is the innermost one.
        let piece = self.pieces[first..].iter().find(|piece| piece.start <= start && end <= piece.end)?;
        Some(piece.source.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clk_base::source::FileId;

    #[test]
    fn the_innermost_piece_is_found() {
        let at = |start, end| SourceSpan::new(Span::new(FileId(0), start, end));
        let mut map = OriginMap::default();
        map.add(4..5, at(40, 50));
        map.add(8..9, at(80, 90));
        map.add(4..9, at(40, 90));
        map.add(0..12, at(0, 120));
        assert_eq!(map.source_of(8..9), Some(at(80, 90).span));
        assert_eq!(map.source_of(5..6), Some(at(40, 90).span));
        assert_eq!(map.source_of(4..9), Some(at(40, 90).span));
        assert_eq!(map.source_of(10..12), Some(at(0, 120).span));
        assert_eq!(map.source_of(10..13), None);
    }
}
