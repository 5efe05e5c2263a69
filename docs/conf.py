"""The settings of Sphinx. `docs/site/` gathers the pages; nothing is loaded from the network."""

from importlib.metadata import version as installed

project = "fgg"
author = "the fgg authors"
project_copyright = "the fgg authors"
version = release = installed("fgg")

extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # pages made from docstrings begin wherever these do

highlight_language = "text"
pygments_style = "friendly"
pygments_dark_style = "github-dark"
maximum_signature_line_length = 72
python_display_short_literal_types = True
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries = False
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.output) > div.highlight pre"

html_theme = "furo"
html_title = "fgg"
html_favicon = "../fgg/explore/page/icon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e5f", "color-brand-content": "#0b6e5f"},
    "dark_css_variables": {"color-brand-primary": "#5cc8b4", "color-brand-content": "#5cc8b4"},
}
