package admission

import (
	"cmp"
	"context"
	"errors"

	"google.golang.org/grpc"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/gate"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/waits"
)

// What a call may hold of what it reads from the store, with its answer, in bytes: of one record, of the spec and the
// observation of a target, of overrides or pieces of a recording, of each decision of a page, and of a list of records. What records have is known only when they are there, and as many calls as a caller
// likes may read the same one at once, for some bytes each.
const (
	storedRecord   = 1 << 20
	storedTarget   = 4 << 20
	storedMany     = 6 << 20
	storedDecision = 32 << 10
	storedList     = 12 << 20
	// waitingToRead limits the calls that wait for such memory.
	waitingToRead = 512
	// usualDecisions is the size of a page that has none.
	usualDecisions = 50
)

// ReadInTurn has calls that read what is stored wait until there is memory for it. Callers take turns.
func (g *Guard) ReadInTurn(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if !access.Reads(info.FullMethod) {
		return handler(ctx, req)
	}
	leave, err := g.turnToRead(ctx, storedBytes(req))
	if err != nil {
		return nil, err
	}
	defer leave()
	return handler(ctx, req)
}

// LoadInTurn waits until there is memory for the spec and the observation of a target, before they are loaded. Callers take
// turns. They may be held until leave is called, and it must be before the call waits for something else.
func (g *Guard) LoadInTurn(ctx context.Context) (leave func(), err error) {
	return g.turnToRead(ctx, storedTarget)
}

func (g *Guard) turnToRead(ctx context.Context, bytes int64) (leave func(), err error) {
	pass := new(gate.Pass)
	if !g.reading.TryEnter(pass, true) {
		err := waits.For(limit.WithTicket(ctx, TicketOf(ctx)), waits.List, func() error { return g.reading.Enter(ctx, pass, access.CallerOf(ctx).Name(), true) })
		switch {
		case errors.Is(err, gate.ErrFull):
			return nil, g.refuseLarge()
		case err != nil:
			return nil, apierror.OfContext(ctx)
		}
	}
	pass.Read(bytes)
	return pass.Leave, nil
}

func storedBytes(req any) int64 {
	switch r := req.(type) {
	case *setpointv1.ListTargetsRequest, *setpointv1.ListTargetSpecsRequest:
		return storedList
	case *setpointv1.ListDecisionsRequest:
		return min(storedList, storedRecord+storedDecision*max(0, int64(cmp.Or(r.GetPageSize(), usualDecisions))))
	case *setpointv1.ListOverridesRequest, *setpointv1.GetRecordingRequest:
		return storedMany
	}
	return storedRecord
}
