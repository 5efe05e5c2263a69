"""Pictures as SVG, PNG, DOT and TikZ."""
