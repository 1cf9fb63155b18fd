package plan

import "fmt"

// maxHeld is how many tasks are looked at to find one that waits for another.
const maxHeld = 1000

// Hold says which task waits for which other one, such as "notes waits for cli": the first task that has not started
// and that waits for one that is at work. It returns "" if none of the first tasks that have not started waits so. What
// has ended has started, too.
func (p *Plan) Hold(started, ended func(i int) bool) string {
	looked := 0
	for _, i := range p.order {
		if started(int(i)) {
			continue
		}
		if looked++; looked > maxHeld {
			break
		}
		first, atWork, more := -1, false, 0
		p.behind(i, func(on int) {
			if ended(on) {
				return
			}
			more++
			if first < 0 || !atWork && started(on) {
				first, atWork = on, started(on)
			}
		})
		if !atWork {
			continue
		}
		text := fmt.Sprintf("%s waits for %s", p.name(int(i)), p.name(first))
		if more > 1 {
			text += fmt.Sprintf(" and %d more", more-1)
		}
		return text
	}
	return ""
}

// behind calls each with the tasks that the task at index i waits for, as far as that does not follow from others.
func (p *Plan) behind(i int32, each func(on int)) {
	for _, on := range p.needs[i] {
		each(int(on))
	}
	for _, on := range p.conflicts[i] {
		each(int(on))
	}
	if p.second == nil || !p.second[i] {
		return
	}
	for on, second := range p.second {
		if !second {
			each(on)
		}
	}
}
