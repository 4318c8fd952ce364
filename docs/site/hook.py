"""A hook of mkdocs (see mkdocs.yml): README.md, which lies above docs/, becomes the first page; no page loads anything from elsewhere."""
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

SHIM = "https://unpkg.com/iframe-worker/shim"
"""What the theme's search needs in pages that are opened as files; a copy lies beside this file."""


def on_files(files: Files, config: Any, **_: Any) -> Files:
  """Add index.md: README.md with links that begin here."""
  text = (Path(config["docs_dir"]).parent / "README.md").read_text("utf-8")
  files.append(File.generated(config, "index.md", content=re.sub(r"\]\(docs/", "](", text)))
  return files


def on_post_page(output: str, page: Any, **_: Any) -> str:
  """Load the copy. Raises ValueError if the page would load something of another site."""
  return _offline(output, page.url)


def on_post_template(output_content: str, template_name: str, **_: Any) -> str:
  """The same of the theme's own pages."""
  return _offline(output_content, template_name)


def _offline(html: str, url: str) -> str:
  html = html.replace(SHIM, "../" * url.count("/") + "site/iframe-worker.js")
  if elsewhere := re.findall(r'(?:src|<link rel="(?:stylesheet|preconnect)"[^>]* href)="(?:https?:)?//[^"]*"', html):
    raise ValueError(f"{url} cannot be read offline: {elsewhere[0]}")
  return html
