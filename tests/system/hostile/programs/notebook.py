"""A notebook whose kernel is a child."""

import nbformat, os
from nbclient import NotebookClient

notebook = nbformat.v4.new_notebook()
code = "import os\ndef f(n): return n\nprint(sum(f(i) for i in range(10)), sorted(k for k in os.environ if k.startswith('INSITU_') and k != 'INSITU_TABLES'))"
notebook.cells = [nbformat.v4.new_code_cell(code), nbformat.v4.new_code_cell("1/0")]
try:
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
except Exception as error:
    print(type(error).__name__)
print(notebook.cells[0].outputs[0]["text"], flush=True)
