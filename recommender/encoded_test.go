package recommender_test

import (
	"github.com/setpoint-dev/setpoint/internal/codec"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/recommender/historytest"
)

func init() {
	recommender.AppendEncoded, recommender.Decode, recommender.RandomHistory = encoding.AppendHistory, encoding.DecodeHistory, historytest.Random
	recommender.NewDecode = func() func(b []byte) (recommender.History, error) {
		reused := new(codec.Memory)
		return func(b []byte) (h recommender.History, err error) {
			err = reused.Decode(b, &h, &codec.Frame{})
			return h, err
		}
	}
	recommender.NewPacked = func() (func(b []byte) (recommender.History, error), func(b []byte, h *recommender.History) []byte) {
		reused, long := new(codec.Memory), new(codec.Long)
		decode := func(b []byte) (h recommender.History, err error) {
			err = reused.DecodePacked(b, &h, &codec.Frame{}, long)
			return h, err
		}
		return decode, func(b []byte, h *recommender.History) []byte { return long.Append(b, h, &codec.Frame{}) }
	}
}
