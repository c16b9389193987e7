//! [`ShownPicture`]: a picture that a script shows in the terminal or a notebook, rather than saves to a file.

use super::apng;
use super::figure::Figure;
use super::heat::Heat;
use super::raster::Raster;
use super::{enlargement, figure_raster, figure_svg, frame_delay};
use crate::array::Array;
use crate::problem::{HostResult, RuntimeError};

/// One picture, or the frames of an animation.
#[derive(Clone, Debug)]
pub struct ShownPicture {
    /// The frames. There is at least one.
    frames: Vec<PictureFrame>,
    /// The seconds for which each frame is shown, if it is an animation.
    pub delay: Option<f64>,
    /// The numbers of the darkest and of the brightest color, for heat maps.
    pub range: Option<(f64, f64)>,
    description: String,
}

/// A picture without motion.
#[derive(Clone, Debug)]
pub enum PictureFrame {
    Figure(Box<Figure>),
    Raster(Raster),
}

impl ShownPicture {
    /// Returns the picture of an array of shape `[H, W]` or `[H, W, C]`; with `fps`, of frames along a further axis.
    pub fn image(array: &Array, fps: Option<f64>) -> HostResult<ShownPicture> {
        let rasters = if fps.is_some() { Raster::frames(array)? } else { vec![Raster::of(array)?] };
        ShownPicture::new(
            rasters.into_iter().map(PictureFrame::Raster),
            fps,
            format!("a picture, {}", array.type_name()),
        )
    }

    /// Returns the heat map of an array.
    pub fn heat(array: &Array, fps: Option<f64>) -> HostResult<ShownPicture> {
        let Heat { rasters, low, high } = Heat::of(array, fps.is_some())?;
        let description = format!("{} … {}, from dark to bright", number(low), number(high));
        let shown = ShownPicture::new(rasters.into_iter().map(PictureFrame::Raster), fps, description)?;
        Ok(ShownPicture { range: Some((low, high)), ..shown })
    }

    /// Returns the picture of a chart, or of the frames of an animated one.
    pub fn chart(figures: Vec<Figure>, fps: Option<f64>) -> HostResult<ShownPicture> {
        let description = format!("a plot of {} points", figures.first().map_or(0, Figure::point_count));
        let frames = figures.into_iter().map(|figure| PictureFrame::Figure(Box::new(figure)));
        ShownPicture::new(frames, fps, description)
    }

    fn new(
        frames: impl Iterator<Item = PictureFrame>,
        fps: Option<f64>,
        description: String,
    ) -> HostResult<ShownPicture> {
        let frames: Vec<PictureFrame> = frames.collect();
        if frames.is_empty() {
            return Err(RuntimeError::new("E0717", "there is nothing to show").label("there are no frames"));
        }
        let delay = fps.map(frame_delay).transpose()?;
        Ok(ShownPicture { frames, delay, range: None, description })
    }

    pub fn frames(&self) -> &[PictureFrame] {
        &self.frames
    }

    /// Returns the frame that is shown where nothing moves.
    pub fn last(&self) -> &PictureFrame {
        &self.frames[self.frames.len() - 1]
    }

    /// Renders the picture as a file. Returns its MIME type, its content, and a description as text.
    pub fn file(&self) -> HostResult<(&'static str, Vec<u8>, String)> {
        if let Some(delay) = self.delay {
            let png = apng::of_rasters(self.frames.iter().map(PictureFrame::raster), delay)?;
            let description = format!("{} frames, {}", self.frames.len(), self.description);
            return Ok(("image/png", png, description));
        }
        match self.last() {
            PictureFrame::Figure(figure) => {
                Ok(("image/svg+xml", figure_svg(figure).into_bytes(), self.description.clone()))
            }
            frame => Ok(("image/png", frame.raster().png()?, self.description.clone())),
        }
    }
}

impl PictureFrame {
    /// Renders the picture as pixels in a size that suits a terminal or a notebook.
    pub fn raster(&self) -> Raster {
        match self {
            PictureFrame::Figure(figure) => figure_raster(figure),
            PictureFrame::Raster(raster) => resize(raster),
        }
    }
}

/// Enlarges a small picture, and subsamples a large one.
fn resize(raster: &Raster) -> Raster {
    const SIZE: usize = 480;
    match raster.width.max(raster.height).div_ceil(2 * SIZE) {
        1 => raster.enlarge(enlargement(raster, SIZE)),
        step => raster.subsample(step),
    }
}

/// Formats a number briefly.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || (1e-3..1e5).contains(&size) {
        let text = format!("{value:.4}");
        let short = text.trim_end_matches('0').trim_end_matches('.');
        if short == "-0" { "0".into() } else { short.into() }
    } else {
        format!("{value:.2e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_brief() {
        assert_eq!([number(0.5), number(-0.0), number(1234.0), number(1e9)], ["0.5", "0", "1234", "1.00e9"]);
    }

    #[test]
    fn frames_are_along_the_first_axis() {
        let array =
            Array::from_shaped(&[0.0f32, 1.0, 1.0, 0.0, 0.5, 1.0, 0.0, 0.0, 1.0, 0.5], &[2, 1, 5]).expect("an array");
        let shown = ShownPicture::image(&array, Some(10.0)).expect("an animation");
        assert_eq!(shown.frames().len(), 2);
        let (kind, bytes, text) = shown.file().expect("a file");
        assert_eq!((kind, text.as_str()), ("image/png", "2 frames, a picture, [f32; 2, 1, 5]"));
        assert!(bytes.windows(4).any(|word| word == b"acTL"));
        assert_eq!(ShownPicture::image(&array, None).unwrap_err().code, "E0716");
        assert_eq!(ShownPicture::heat(&array, Some(10.0)).expect("an animation").range, Some((0.0, 1.0)));
        let none = Array::from_shaped::<f32>(&[], &[0, 2, 2]).expect("an array");
        assert_eq!(ShownPicture::image(&none, Some(10.0)).unwrap_err().label, "there are no frames");
    }
}
