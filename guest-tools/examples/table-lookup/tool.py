"""The tool table_lookup: finds rows of a CSV file by the value of a key column."""

from typing import Annotated, Literal

from answer import Answer
from lookup import Lookup
from skillhost_kit import Failure, Folder, Output, export, tool
from table import Table


@tool(
    title="Look up rows of a table",
    skill="skill_name",
    path="file_path",
    output_schema=Answer.SCHEMA,
)
def table_lookup(
    folder: Folder,
    skill_name: Annotated[str, "Name of the skill"],
    file_path: Annotated[str, "Path of a CSV file in the skill's folder"],
    values: Annotated[
        list[Annotated[str, {"maxLength": 200}]],
        "Values of the key column to look up. Case is ignored, unless a row has the value exactly",
        {"minItems": 1, "maxItems": 20},
    ],
    column: Annotated[
        str | None, "Name of the key column; the first column, if left out", {"maxLength": 200}
    ] = None,
    columns: Annotated[
        list[Annotated[str, {"maxLength": 200}]] | None,
        "Names of the columns to return; all, if left out",
        {"minItems": 1, "maxItems": 100},
    ] = None,
    limit: Annotated[int, "Maximum number of rows to return", {"minimum": 1, "maximum": 100}] = 20,
    delimiter: Annotated[
        Literal["comma", "semicolon", "tab", "pipe"] | None,
        "The delimiter between cells; detected in the header, if left out",
    ] = None,
) -> Output:
    """Find rows of a table (a CSV file) in a skill by the value of a key column. Returns the cells of
    each row with the names of their columns, and its line number."""
    if not all(value.strip() for value in values):
        raise Failure.invalid_arguments("A value is empty.")
    with folder.open(file_path) as file:
        table = Table(file, file_path, delimiter)
        key = 0 if column is None else table.find(column)
        if columns is None:
            numbers = range(len(table.columns))
        else:
            numbers = [table.find(name) for name in columns]
        lookup = Lookup(values, limit)
        for line, cells in table.rows():
            # A row may be shorter than the header.
            lookup.check(line, cells, cells[key] if key < len(cells) else "")
    return Answer(table, table.columns[key], lookup).output(numbers, is_whole_row=columns is None)


# The component exports the class of this name.
Tools = export(table_lookup)
