package services

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/admission"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/cost"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/gate"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/requests"
)

// checked is a call whose message is decoded only after its size was checked, and when there is enough
// memory.
type checked[S any, Req, Resp proto.Message] struct {
	requests func(S) *requests.Reader
	method   string
	// limit is the name of the limit of the message's bytes, and most its value.
	limit string
	most  int
	empty func() Req
	call  func(S, context.Context, Req) (Resp, error)
}

// answer decodes a message and calls the method.
func (l *checked[S, Req, Resp]) answer(s S, ctx context.Context, in *encoded.Message) (*encoded.Message, error) {
	r := l.requests(s)
	if len(in.Data) > l.most {
		return nil, apierror.OverLimit(l.limit, l.most, "the message is larger than this server stores")
	}
	if !in.Pass.Entered() {
		if err := r.Enter(ctx, admission.TicketOf(ctx), access.CallerOf(ctx).Name(), &in.Pass, requests.IsLarge(in.Data)); err != nil {
			return nil, err
		}
	}
	budget := cost.BudgetOf(len(in.Data))
	req := l.empty()
	if err := encoded.Unmarshal(in.Data, r.Settings.CostLimits(), budget, req); err != nil {
		return nil, err
	}
	if !in.Pass.Read(int64(budget.Made())) {
		return nil, r.Refuse(limit.LargeRequests)
	}
	if err := access.Authorize(ctx, l.method, req); err != nil {
		return nil, err
	}
	response, err := l.call(s, gate.With(ctx, &in.Pass), req)
	if err != nil {
		return nil, err
	}
	answer := encoded.NewAnswer()
	if answer.Data, err = requests.Marshal(answer.Data, response); err != nil {
		answer.Free()
		return nil, err
	}
	return answer, nil
}
