package markdown

import (
	"slices"
	"strings"
)

const (
	// maxTable is how many bytes of a table are held back. The rows after them get the widths of those before.
	maxTable = 64 << 10
	// maxColumns is how many columns a table has. Others are a part of the last one.
	maxColumns = 50
	// narrow is the least average width of a column. If there is less room, each row is a list of its cells.
	narrow = 4
	bar    = " │ "
)

// table is a table, or a line that may be the head of one.
type table struct {
	first, others string // what comes before the first line, and before the others
	head          string
	aligns        []align // nil until the line below the head has come
	rows          [][]string
	size          int   // bytes of rows
	widths        []int // of the columns; nil until the first rows are shown
}

// align is where the text of a column is.
type align int

const (
	left align = iota
	middle
	right
)

// openRow takes a line that begins with a bar.
func (r *Renderer) openRow(line string) {
	t := r.table
	if t != nil && t.aligns == nil {
		if t.aligns = alignsOf(line); t.aligns != nil {
			t.add(t.head)
			return
		}
		r.endTable()
		t = nil
	}
	if t == nil {
		r.place(false)
		first, others := r.margins()
		r.table = &table{first: first, others: others, head: line}
		return
	}
	if t.add(line); t.size > maxTable {
		r.showRows()
	}
}

// endTable shows what is left of a table.
func (r *Renderer) endTable() {
	t := r.table
	if t == nil {
		return
	}
	if r.showRows(); t.aligns == nil { // only a line of text
		r.startRow()
		f := flow{width: r.width, first: t.first, others: t.others, coloured: r.coloured}
		in := inline{to: &f, out: &r.out, plain: !r.coloured}
		in.scan(t.head, true, 0, 0)
		f.end(&r.out)
		r.text = true
	}
	r.table = nil
}

// alignsOf reads the line below the head of a table, such as |---|:-:|; nil if it is none.
func alignsOf(line string) (all []align) {
	for _, cell := range cells(line) {
		marks := strings.Trim(cell, ":")
		if marks == "" || strings.Trim(marks, "-") != "" {
			return nil
		}
		a := left
		if strings.HasSuffix(cell, ":") {
			if a = right; strings.HasPrefix(cell, ":") {
				a = middle
			}
		}
		all = append(all, a)
	}
	return all[:min(len(all), maxColumns)]
}

// cells returns the cells of a row.
func cells(line string) (all []string) {
	line = strings.TrimPrefix(line, "|")
	var b strings.Builder
	for i := 0; i < len(line); {
		k := 1
		switch line[i] {
		case '\\':
			k = min(2, len(line)-i)
		case '`':
			k = run(line[i:])
			if end, _ := closingTicks(line[i:], k, false); end > 0 {
				b.WriteString(strings.ReplaceAll(line[i:i+end], `\|`, "|"))
				i += end
				continue
			}
		case '|':
			all = append(all, strings.TrimSpace(b.String()))
			b.Reset()
			i++
			continue
		}
		b.WriteString(line[i : i+k])
		i += k
	}
	if rest := strings.TrimSpace(b.String()); rest != "" || len(all) == 0 {
		all = append(all, rest)
	}
	return all
}

// add adds a row, with as many cells as the table has columns.
func (t *table) add(line string) {
	row, n := cells(line), len(t.aligns)
	if len(row) > n {
		row[n-1] = strings.Join(row[n-1:], " | ")
		row = row[:n]
	}
	for len(row) < n {
		row = append(row, "")
	}
	t.rows, t.size = append(t.rows, row), t.size+len(line)
}

// showRows shows the rows that are held back.
func (r *Renderer) showRows() {
	t := r.table
	if len(t.rows) == 0 {
		return
	}
	room := r.width - widthOf(t.others) - len(t.aligns)*3 + 3
	if room < narrow*len(t.aligns) {
		r.showList()
		return
	}
	r.startRow()
	start := 0
	if t.widths == nil {
		t.widths = r.columnWidths(t.rows, room)
		r.showRow(t.rows[0], bold)
		lines := make([]string, len(t.widths))
		for i, w := range t.widths {
			lines[i] = strings.Repeat("─", w)
		}
		r.out.WriteString(t.others)
		write(&r.out, strings.Join(lines, "─┼─"), dim.when(r.coloured))
		r.out.WriteByte('\n')
		start = 1
	}
	for _, row := range t.rows[start:] {
		r.showRow(row, 0)
	}
	t.rows = t.rows[:0]
}

// columnWidths returns the widths of columns that have room columns of the terminal together. Narrow ones get what they
// need, and the others share the rest.
func (r *Renderer) columnWidths(rows [][]string, room int) []int {
	needs := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			for _, line := range r.cell(cell, most, 0) {
				needs[i] = max(needs[i], widthOf(line), 1)
			}
		}
	}
	widths, open := slices.Clone(needs), len(needs)
	fits := make([]bool, len(needs))
	for again := true; again && open > 0; {
		again = false
		for i, n := range needs {
			if !fits[i] && n <= room/open {
				fits[i], again = true, true
				room -= n
				open--
				if open == 0 {
					break
				}
			}
		}
	}
	for i := range widths {
		if !fits[i] {
			widths[i] = room / open
			room, open = room-widths[i], open-1
		}
	}
	return widths
}

// cell returns the lines of a cell of a width.
func (r *Renderer) cell(text string, width int, st style) (lines []string) {
	breaks := strings.NewReplacer("<br>", "\n", "<br/>", "\n", "<br />", "\n")
	for part := range strings.SplitSeq(breaks.Replace(text), "\n") {
		var b strings.Builder
		f := flow{width: width, coloured: r.coloured}
		in := inline{to: &f, out: &b, plain: !r.coloured}
		in.scan(part, true, st, 0)
		f.end(&b)
		lines = append(lines, strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")...)
	}
	return lines
}

// showRow shows a row of the table, in as many lines as its highest cell has.
func (r *Renderer) showRow(row []string, st style) {
	t := r.table
	parts, high := make([][]string, len(row)), 0
	for i, cell := range row {
		parts[i] = r.cell(cell, t.widths[i], st)
		high = max(high, len(parts[i]))
	}
	for k := range high {
		first := t.others
		if k == 0 && st == bold {
			first = t.first
		}
		r.out.WriteString(first)
		for i, w := range t.widths {
			text := ""
			if k < len(parts[i]) {
				text = parts[i][k]
			}
			if i > 0 {
				write(&r.out, bar, dim.when(r.coloured))
			}
			space, before := max(0, w-widthOf(text)), 0
			switch t.aligns[i] {
			case right:
				before = space
			case middle:
				before = space / 2
			}
			r.out.WriteString(strings.Repeat(" ", before) + text)
			if i < len(t.widths)-1 {
				r.out.WriteString(strings.Repeat(" ", space-before))
			}
		}
		r.out.WriteByte('\n')
	}
}

// showList shows the rows of a table that has too many columns for the width: a line for each cell.
func (r *Renderer) showList() {
	t := r.table
	names, rows := t.rows[0], t.rows[1:]
	if t.widths != nil { // the head was shown before
		names, rows = cells(t.head), t.rows
	}
	if t.widths = make([]int, len(t.aligns)); len(rows) == 0 {
		rows = [][]string{make([]string, len(names))}
	}
	first := t.first
	for i, row := range rows {
		if r.gap = r.gap || i > 0; i > 0 {
			r.bars = 0
		}
		r.startRow()
		for k, cell := range row {
			f := flow{width: r.width, first: first, others: t.others + "  ", coloured: r.coloured}
			first = t.others
			in := inline{to: &f, out: &r.out, plain: !r.coloured}
			if k < len(names) {
				in.scan(names[k], true, bold, 0)
				f.add(&r.out, ": ", bold, false)
			}
			in.prev = 0
			in.scan(cell, true, 0, 0)
			f.end(&r.out)
		}
	}
	t.rows = t.rows[:0]
}
