package main

import (
	"context"

	"github.com/retrace-dev/engine/sdk"
)

// models lists what an endpoint has: a question that costs nothing, to see
// whether it is there and the token is right.
func models(ctx context.Context, req *sdk.Request, host sdk.Host) (*sdk.Response, error) {
	c, err := parseConfig(req.Config)
	if err != nil {
		return nil, err
	}
	var none struct{}
	if err := sdk.Unmarshal(req.Input, &none); err != nil {
		return nil, invalid("", "the input is no object: %v", err)
	}
	rep, body, err := sdk.HTTP(ctx, host, c.dialect.list(c), nil)
	if err != nil {
		return nil, err
	}
	if e := failed(rep, body); e != nil {
		return nil, e
	}
	names, err := c.dialect.names(body)
	if err != nil {
		return nil, strange(body, err)
	}
	return sdk.Output(object{"models": names})
}
