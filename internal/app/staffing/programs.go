package staffing

import (
	"fmt"

	"qq/internal/app/command"
	"qq/internal/models"
	"qq/pkg/agents/program"
	"qq/pkg/task"
)

// Programs finds the programs that run agents.
type Programs interface {
	// Find returns the path of a program. The error has a hint how to install it.
	Find(p program.Program) (string, error)
}

// program returns what stands for the model of t if another agent program does its work; else ok is false. The program
// chooses its model itself, as the definition says: a model of the task or the run is one of qq's.
func (d *Desk) program(t task.Task) (m models.Model, ok bool, err error) {
	def, err := d.Agents.Agent(t.Agent)
	if err != nil || def.Runs.IsZero() {
		return m, false, nil // who needs the agent reports err
	}
	m = models.Model{Kind: models.Program, Server: def.Runs.Name, Name: def.Model, Tools: true, MaySee: true}
	if m.Name == "" {
		m.Name = "default"
	}
	if t.Model != "" {
		d.once("%s runs %s, which has the model of its definition and not %s", def.Name, def.Runs.Name, t.Model)
	}
	if _, priced := d.Settings.Price(m.String()); d.Settings.MaxCost > 0 && !priced && def.Runs.Name != program.Claude {
		return m, true, command.Usagef("add "+m.String()+"=IN/OUT to QQ_PRICES, for a million tokens, or set no limit",
			"%s does not say what it costs, so the limit of cost (%s) cannot hold", def.Runs.Name,
			d.Settings.Source("QQ_MAX_COST"))
	}
	if _, err := d.Programs.Find(def.Runs); err != nil {
		problem, hint := task.Explain(err)
		return m, true, command.Usagef(hint, "%s: %s", def.Name, fmt.Sprint(problem))
	}
	return m, true, nil
}
