"""Our own packages as one archive, for executors that have the libraries but not Headrace."""

import shutil
import tempfile
import weakref
import zipfile
from pathlib import Path


def build_code_archive(kept_by: object) -> Path:
    """An archive of our packages; it is removed when `kept_by` is garbage."""
    top = Path(__file__).parent.parent
    folder = tempfile.mkdtemp(prefix="headrace-")
    # Executors fetch the file when they come up, which may be any time later.
    weakref.finalize(kept_by, shutil.rmtree, folder, ignore_errors=True)
    archive = Path(folder) / "headrace.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for package in ("headrace", "ingest", "listeners", "spark"):
            for module in sorted((top / package).rglob("*.py")):
                packed.write(module, module.relative_to(top))
    return archive
