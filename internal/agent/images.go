package agent

import (
	"context"
	"encoding/json"
	"slices"

	"qq/pkg/llm"
	"qq/pkg/picture"
	"qq/pkg/task"
)

// look reads the images of the job that are files of the working directory. It is an error if the model is known to
// see no images, and the job or the conversation before it has some. If that is not known, the result has a warning:
// some servers, such as Ollama, leave the images out and do not say so.
func (r *run) look(ctx context.Context) error {
	what := ""
	switch {
	case len(r.job.Images) > 0:
		what = "the task"
	case slices.ContainsFunc(r.History, func(m llm.Message) bool { return len(m.Images) > 0 }):
		what = "the conversation"
	default:
		return nil
	}
	otherwise := "" // what to do if no image was meant
	if r.job.BatchID != "" {
		otherwise = "; what comes after ::: instead of as FILES is only a name"
	}
	if r.Model.Blind() {
		return &task.Error{Status: task.Misused,
			Problem: what + " has an image, and the model " + r.Model.String() + " sees none",
			Hint:    "name a model that sees images with --model; qq models list shows which do" + otherwise}
	}
	if !r.Model.Sees() {
		r.unsure = append(r.unsure, what+" has an image, and it is not known whether "+r.Model.String()+" sees it")
	}
	r.job.Images = slices.Clone(r.job.Images)
	for i, image := range r.job.Images {
		if image.Data != nil {
			continue
		}
		res, err := r.space.Image(ctx, image.Name)
		if err != nil {
			return &task.Error{Status: task.Misused, Problem: err.Error(), Hint: picture.Advice + otherwise}
		}
		r.job.Images[i] = res.Images[0]
		arguments, err := json.Marshal(map[string]string{"path": image.Name})
		if err != nil {
			return err
		}
		r.looked = append(r.looked, task.Read{Tool: "read_file", Arguments: arguments, Digest: Digest(res)})
	}
	return nil
}
