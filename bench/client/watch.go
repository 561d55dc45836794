package client

import (
	"context"
	"fmt"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Watch opens a watch of decisions for each parent, and waits until all are open. A response has up
// to together decisions, which are counted without decoding them. The streams end with the
// context.
func (c *Client) Watch(ctx context.Context, parents []string, together int32) (received *atomic.Int64, err error) {
	received = new(atomic.Int64)
	desc := &setpointv1.TargetService_ServiceDesc.Streams[0]
	for i, parent := range parents {
		stream, err := c.conn(i).NewStream(ctx, desc, setpointv1.TargetService_WatchDecisions_FullMethodName)
		if err != nil {
			return nil, err
		}
		data, err := proto.Marshal(&setpointv1.WatchDecisionsRequest{Parent: parent, MaxDecisions: together})
		if err != nil {
			return nil, err
		}
		var first []byte
		if err := stream.SendMsg(&data); err != nil {
			return nil, err
		}
		if err := stream.CloseSend(); err != nil {
			return nil, err
		}
		if err := stream.RecvMsg(&first); err != nil {
			return nil, fmt.Errorf("watch %d: %w", i, err)
		}
		go func() {
			var response []byte
			for stream.RecvMsg(&response) == nil {
				received.Add(decisions(response))
			}
		}()
	}
	return received, nil
}

// Numbers of the fields of WatchDecisionsResponse that have decisions.
const decisionField, decisionsField = 2, 6

// decisions is how many a response has.
func decisions(response []byte) (n int64) {
	for len(response) > 0 {
		number, _, size := protowire.ConsumeField(response)
		if size < 0 {
			return n
		}
		if number == decisionField || number == decisionsField {
			n++
		}
		response = response[size:]
	}
	return n
}
