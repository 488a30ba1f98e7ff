"""Tables and figures that a paper prints, measured with our methods."""
