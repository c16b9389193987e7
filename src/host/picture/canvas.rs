//! Paints a drawing as pixels. The rasterizer `zeno` computes the coverage of pixels by shapes.

use zeno::{Cap, Command, Join, Mask, PathBuilder, Stroke, Style, Vector};

use super::drawing::{Anchor, Color, Drawing, DrawnShape, HEIGHT, PAPER, PixelPoint, TEXT_COLOR, WIDTH};
use super::font;
use super::raster::Raster;
use clk_base::{alloc, stop};

/// Number of points that are stroked at once, between two polls for a stop request.
const STROKED: usize = 1 << 12;

/// Paints a drawing.
pub(crate) fn paint(drawing: &Drawing) -> Raster {
    let mut canvas = PixelCanvas { pixels: PAPER.repeat(WIDTH * HEIGHT) };
    for shape in stop::polled(&drawing.shapes) {
        canvas.paint(shape);
    }
    Raster { width: WIDTH, height: HEIGHT, pixels: canvas.pixels }
}

/// An RGB image of [`WIDTH`] by [`HEIGHT`] pixels.
struct PixelCanvas {
    pixels: Vec<u8>,
}

impl PixelCanvas {
    fn paint(&mut self, shape: &DrawnShape) {
        match shape {
            DrawnShape::Rectangle { corner: (x, y), size: (width, height), color, opacity } => {
                let corners = [(*x, *y), (x + width, *y), (x + width, y + height), (*x, y + height)];
                self.fill(&path(&corners), Style::default(), *color, *opacity);
            }
            DrawnShape::Polygon { points, color, opacity } => {
                self.fill(&path(points), Style::default(), *color, *opacity);
            }
            DrawnShape::Polyline { points, width, color } => self.stroke(points, *width, *color),
            DrawnShape::Disc { center: (x, y), radius, color } => {
                let mut circle: Vec<Command> = vec![];
                circle.add_circle((*x as f32, *y as f32), *radius as f32);
                self.fill(&circle, Style::default(), *color, 1.0);
            }
            DrawnShape::Text { text, at, anchor, is_vertical } => self.text(text, *at, *anchor, *is_vertical),
        }
    }

    fn stroke(&mut self, points: &[PixelPoint], width: f64, color: Color) {
        let mut stroke = Stroke::new(width as f32);
        stroke.cap(Cap::Round).join(Join::Round);
        let mut start = 0;
        loop {
            stop::poll();
            // Neighboring parts share a point.
            let part = &points[start..points.len().min(start + STROKED)];
            self.fill(&path(part), Style::Stroke(stroke), color, 1.0);
            start += STROKED - 1;
            if start + 1 >= points.len() {
                break;
            }
        }
    }

    /// Blends a color into the pixels that a path covers.
    fn fill(&mut self, commands: &Vec<Command>, style: Style<'_>, color: Color, opacity: f64) {
        let (mask, placement) = Mask::new(commands).style(style).render();
        let width = placement.width as usize;
        for (row, line) in mask.chunks_exact(width.max(1)).enumerate() {
            for (column, cover) in line.iter().enumerate().filter(|(_, cover)| **cover > 0) {
                let (x, y) = (placement.left as i64 + column as i64, placement.top as i64 + row as i64);
                self.blend(x, y, color, f64::from(*cover) / 255.0 * opacity);
            }
        }
    }

    /// Blends a color into a pixel; does nothing outside of the canvas.
    fn blend(&mut self, x: i64, y: i64, color: Color, cover: f64) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        if x >= WIDTH || y >= HEIGHT {
            return;
        }
        let start = (y * WIDTH + x) * 3;
        for (place, new) in self.pixels.iter_mut().skip(start).zip(color) {
            let mixed = f64::from(*place) * (1.0 - cover) + f64::from(new) * cover;
            *place = mixed.round() as u8;
        }
    }

    fn text(&mut self, text: &str, (x, y): PixelPoint, anchor: Anchor, is_vertical: bool) {
        let length = text.chars().count() * font::WIDTH;
        let before = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => length as f64 / 2.0,
            Anchor::End => length as f64,
        };
        for (at, c) in text.chars().enumerate() {
            let Some(glyph) = font::glyph(c) else { continue };
            for (row, line) in glyph.rows().enumerate() {
                for (column, cover) in line.iter().enumerate().filter(|(_, cover)| **cover > 0) {
                    let along = (at * font::WIDTH + column) as f64 - before;
                    let across = row as f64 - font::HEIGHT as f64 / 2.0;
                    let (x, y) = if is_vertical { (x + across, y - along) } else { (x + along, y + across) };
                    self.blend(x.round() as i64, y.round() as i64, TEXT_COLOR, f64::from(*cover) / 255.0);
                }
            }
        }
    }
}

fn path(points: &[PixelPoint]) -> Vec<Command> {
    let command = |(at, (x, y)): (usize, &PixelPoint)| {
        let point = Vector::new(*x as f32, *y as f32);
        if at == 0 { Command::MoveTo(point) } else { Command::LineTo(point) }
    };
    alloc::collect(points.len() + 1, points.iter().enumerate().map(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the color of a pixel of a drawing with one shape.
    fn pixel(shape: DrawnShape, x: usize, y: usize) -> Vec<u8> {
        let raster = paint(&Drawing { shapes: vec![shape] });
        raster.pixels[(y * WIDTH + x) * 3..][..3].to_vec()
    }

    #[test]
    fn shapes_cover_their_pixels() {
        let color = [9, 8, 7];
        let disc = || DrawnShape::Disc { center: (50.0, 60.0), radius: 4.0, color };
        assert_eq!((pixel(disc(), 50, 60), pixel(disc(), 56, 60)), (color.to_vec(), PAPER.to_vec()));
        let points = vec![(10.0, 20.0), (30.0, 20.0), (30.0, 40.0)];
        let line = || DrawnShape::Polyline { points: points.clone(), width: 4.0, color };
        assert_eq!((pixel(line(), 20, 20), pixel(line(), 20, 30)), (color.to_vec(), PAPER.to_vec()));
        let polygon = || DrawnShape::Polygon { points: points.clone(), color, opacity: 1.0 };
        assert_eq!((pixel(polygon(), 28, 30), pixel(polygon(), 12, 38)), (color.to_vec(), PAPER.to_vec()));
        let rectangle = DrawnShape::Rectangle { corner: (5.0, 5.0), size: (10.0, 10.0), color: [0; 3], opacity: 0.5 };
        assert_eq!(pixel(rectangle, 7, 7), [128; 3]);
    }

    #[test]
    fn texts_have_ink() {
        let text = |words: &str, is_vertical| {
            let shape =
                DrawnShape::Text { text: words.into(), at: (480.0, 300.0), anchor: Anchor::Middle, is_vertical };
            let raster = paint(&Drawing { shapes: vec![shape] });
            raster.pixels.iter().filter(|level| **level < 128).count()
        };
        assert!(text("label", false) > 100 && text("", false) == 0);
        assert_eq!(text("label", false), text("label", true));
        assert!(text("漢", false) > 0, "a character without a glyph is not left out");
    }
}
