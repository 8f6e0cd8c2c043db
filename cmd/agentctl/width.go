package main

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// columns is how many columns of a terminal a text takes: two for each wide character, none for marks that combine.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += columnsOf(r)
	}
	return n
}

func columnsOf(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	if kind := width.LookupRune(r).Kind(); kind == width.EastAsianWide || kind == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

// cut shortens a text to n columns; an ellipsis shows that it did. No character is halved.
func cut(s string, n int) string {
	if columns(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	used := 0
	for i, r := range s {
		if used += columnsOf(r); used > n-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// pad fills a text up to n columns.
func pad(s string, n int) string { return s + strings.Repeat(" ", max(0, n-columns(s))) }

// table is text in columns, the first row with their names.
type table struct{ rows [][]string }

// add adds a row; all rows have as many cells.
func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// lines lays the rows out with two spaces between the columns. With a width above 0 no line has more columns: the end of
// a row, which says least, is cut.
func (t *table) lines(width int) []string {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns(cell))
		}
	}
	var lines []string
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(pad(cell, widths[i]) + "  ")
		}
		text := strings.TrimRight(line.String(), " ")
		if width > 0 {
			text = cut(text, width)
		}
		lines = append(lines, text)
	}
	return lines
}
