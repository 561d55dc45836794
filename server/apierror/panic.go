package apierror

import (
	"runtime/debug"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Recovered logs a recovered panic of a method and returns INTERNAL; it returns err if there
// was no panic.
func Recovered(log *zap.Logger, method string, panicked any, err error) error {
	if panicked == nil {
		return err
	}
	log.Error("panic", zap.String("method", method), zap.Any("panic", panicked), zap.ByteString("stack", debug.Stack()))
	return status.Error(codes.Internal, "internal error")
}
