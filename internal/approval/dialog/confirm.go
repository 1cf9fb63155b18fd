package dialog

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// Confirmation is a question that a person answers with yes or no.
type Confirmation struct {
	Head     string
	Lines    []string // below Head
	Whole    []string // Lines with what they leave out
	Question string
}

// Confirm shows c, and waits for the answer of a person. Enter means no. Like a question about a call, the text is all
// spelled out, what was typed before it is discarded, and a text of more than a page, or with lines that leave
// something out, cannot be answered with yes before [a]ll has shown everything. Without an answer there is an error.
func (p *Terminal) Confirm(ctx context.Context, c Confirmation) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.foreground(); err != nil {
		return false, err
	}
	release, err := p.hold(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	defer p.watch(ctx, nil)()
	whole, fresh := false, true
	text, cut := page{size: p.size(), colour: p.colour}.confirmation(c, whole)
	for {
		choice, other := "[y]es, [n]o: ", "type y or n\n"
		if cut {
			choice, other = "show [a]ll first, [n]o: ", "type a or n\n"
		}
		answer, err := p.exchange(ctx, text, choice, fresh)
		fresh = errors.Is(err, errResumed)
		answer = strings.ToLower(strings.TrimSpace(answer))
		switch {
		case fresh:
			text, cut = page{size: p.size(), colour: p.colour}.confirmation(c, whole)
		case err != nil:
			_ = p.write(ctx, "\n")
			return false, err
		case !cut && (answer == "y" || answer == "yes"):
			return true, nil
		case answer == "n", answer == "no", answer == "":
			return false, nil
		case cut && (answer == "a" || answer == "all"):
			whole = true
			text, cut = page{size: p.size(), colour: p.colour}.confirmation(c, whole)
		default:
			text = indent + other
		}
	}
}

// confirmation returns the text of a question that is answered with yes or no. If whole is not set, the middle of a
// long text is left out, and cut says that it was.
func (p page) confirmation(c Confirmation, whole bool) (text string, cut bool) {
	most, lines := max(min(mostRows, p.size.rows-8), 5), c.Lines
	if whole {
		most, lines = everything, c.Whole
	}
	var rows []string
	for _, line := range lines {
		rows = append(rows, p.rows(line, bar, barAgain)...)
	}
	var b strings.Builder
	b.WriteString("\n" + p.paint(bold, visible(c.Head)) + "\n")
	cut = p.write(&b, rows, most) || !slices.Equal(lines, c.Whole)
	p.write(&b, p.rows(c.Question, "", ""), everything)
	return b.String(), cut
}
