package daemon

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/grpclog"
)

// What grpc and its gateway tell of peers, as that one closed its connection, is a line of the
// log like others: standard error has JSON only.
func TestErrorsOfGRPCEnterTheLog(t *testing.T) {
	core, lines := observer.New(zap.DebugLevel)
	transport.log.Store(zap.New(core))
	defer transport.log.Store(nil)
	grpclog.Errorf("Failed to send response chunk: %v", "broken pipe")
	grpclog.Infof("nothing for an operator")
	all := lines.All()
	if len(all) != 1 || all[0].Level != zap.InfoLevel || all[0].ContextMap()["message"] != "Failed to send response chunk: broken pipe" {
		t.Errorf("logged %+v", all)
	}
}
