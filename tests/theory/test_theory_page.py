"""What docs/explanation/theory.md shows, is computed."""

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "theory.md"


def test_the_page_shows_what_python_answers():
    (session,) = re.findall(r"```pycon\n(.*?)```", PAGE.read_text(), flags=re.S)
    test = doctest.DocTestParser().get_doctest(session, {}, PAGE.name, str(PAGE), 0)
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert result.attempted > 5
    assert not result.failed, "".join(said)
