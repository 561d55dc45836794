package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"google.golang.org/grpc"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/bench/load"
	"github.com/setpoint-dev/setpoint/bench/request"
)

// conversation is a stream of recommendations. Ids are slots.
type conversation struct {
	stream grpc.ClientStream
	parts  []*request.Part // by slot
	answer []byte
}

// Converse returns a function that opens one of several streams of recommendations,
// with that many requests in flight on each.
func (c *Client) Converse(set *request.Set, streams, inFlight int) func(context.Context, int) (load.Conversation, error) {
	desc := &setpointv1.RecommendationService_ServiceDesc.Streams[0]
	parts := split(set, streams*inFlight)
	return func(ctx context.Context, n int) (load.Conversation, error) {
		stream, err := c.conn(n).NewStream(ctx, desc, setpointv1.RecommendationService_StreamRecommend_FullMethodName)
		if err != nil {
			return nil, err
		}
		return &conversation{stream: stream, parts: parts[n*inFlight : (n+1)*inFlight]}, nil
	}
}

// Send implements load.Conversation. The stream keeps a sent message for a while.
func (c *conversation) Send(slot int) error {
	data := c.parts[slot].AppendStreamed(make([]byte, 0, 2<<10), strconv.Itoa(slot))
	return c.stream.SendMsg(&data)
}

// Receive implements load.Conversation.
func (c *conversation) Receive() (slot int, answered bool, err error) {
	if err := c.stream.RecvMsg(&c.answer); err != nil {
		return 0, false, err
	}
	id, refused := request.Answered(c.answer)
	if slot, err = strconv.Atoi(string(id)); err != nil {
		return 0, false, fmt.Errorf("the id of an answer: %w", err)
	}
	if refused {
		return slot, true, errRefused
	}
	return slot, true, nil
}

// End implements load.Conversation.
func (c *conversation) End() error {
	if err := c.stream.CloseSend(); err != nil {
		return err
	}
	if err := c.stream.RecvMsg(&c.answer); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the end of a stream: %w", err)
	}
	return nil
}
