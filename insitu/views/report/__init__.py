"""A campaign on paper: `insitu report` as HTML or Markdown."""
