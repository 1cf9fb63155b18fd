package control

import (
	"errors"
	"fmt"

	"qq/internal/approval"
	"qq/pkg/supervisor/jobs"
)

// answer does what a request asks for. For a subscription, it also returns the queue of the events.
func (p *peer) answer(r Request) (Frame, chan []byte, *Fault) {
	s := p.server
	switch r.Type {
	case TypeSnapshot:
		return Frame{Type: TypeSnapshot, Snapshot: s.snapshot(s.last())}, nil, nil
	case TypeSubscribe:
		seq, events, fault := s.subscribe(p, r.Subscribe)
		if fault != nil {
			return Frame{}, nil, fault
		}
		return Frame{Type: TypeSnapshot, Snapshot: s.snapshot(seq)}, events, nil
	case TypeLog:
		entries, fault := s.log(r.Log)
		return Frame{Type: TypeLog, Log: entries}, nil, fault
	}
	return Frame{Type: TypeDone}, nil, s.steer(r)
}

// steer does what a request asks for that changes the run.
func (s *Server) steer(r Request) *Fault {
	switch r.Type {
	case TypeCancel:
		if id := r.Cancel.ExecutionID; !s.cancel(id) {
			return unknownJob(id)
		}
	case TypeAnswer:
		return answered(s.cfg.Approvals.Answer(r.Answer.QuestionID, r.Answer.Answer, approval.BySocket))
	case TypeMessage:
		switch err := s.cfg.Tree.Live().Message(r.Message.ExecutionID, r.Message.Text); {
		case errors.Is(err, jobs.ErrUnknown):
			return unknownJob(r.Message.ExecutionID)
		case err != nil:
			return &Fault{CodeRefused, err.Error(), "the agent reads its messages before its next request to the model"}
		}
	case TypeJobs:
		s.cfg.Tree.Slots().Resize(r.Jobs.Max)
		s.cfg.Servers.Resize(r.Jobs.Max)
	case TypePause, TypeResume:
		s.cfg.Tree.Slots().Pause(r.Type == TypePause)
	}
	return nil
}

func unknownJob(id string) *Fault {
	return &Fault{CodeUnknownJob, fmt.Sprintf("no job %.64q queues or runs here", id), "snapshot lists them"}
}

// answered returns what is wrong with an answer to a question.
func answered(err error) *Fault {
	const hint = "snapshot lists the open questions"
	if over, ok := errors.AsType[*approval.OverError](err); ok {
		return &Fault{CodeAnswered, over.Error(), hint}
	}
	switch {
	case errors.Is(err, approval.ErrUnknownQuestion):
		return &Fault{CodeAnswered, err.Error(), hint}
	case err != nil:
		return &Fault{CodeBadRequest, err.Error(), hint}
	}
	return nil
}
