package main

import (
	"context"

	"github.com/retrace-dev/engine/sdk"
)

// maxImages bounds the images of one question, in bytes together: they travel
// as base64 in one body, which the sandbox's memory holds several times.
const maxImages = 16 << 20

// fetch reads the images from the host.
func (q *question) fetch(ctx context.Context, host sdk.Host) error {
	left := int64(maxImages)
	for i := range q.Messages {
		parts := q.Messages[i].Content
		for k := range parts {
			b := parts[k].Image
			if b == nil {
				continue
			}
			if left -= b.Size; left < 0 {
				return invalid("/images", "the images have more than %d MiB; send fewer or smaller ones", maxImages>>20)
			}
			data, err := fetchBlob(ctx, host, b)
			if err != nil {
				return err
			}
			parts[k].data = data
		}
	}
	return nil
}

func fetchBlob(ctx context.Context, host sdk.Host, b *sdk.Blob) ([]byte, error) {
	data := make([]byte, 0, b.Size)
	for {
		ok, more, err := sdk.Operate(ctx, host, sdk.BlobGetOp{Op: sdk.OpBlobGet, Digest: b.Digest, Offset: int64(len(data))}, nil)
		if err != nil {
			return nil, err
		}
		var slice sdk.BlobSlice
		if err := sdk.Unmarshal(ok, &slice); err != nil {
			return nil, err
		}
		data = append(data, more...)
		if slice.EOF {
			return data, nil
		}
		if len(more) == 0 || len(data) > maxImages {
			return nil, invalid("/images", "blob %s is not as long as it says", b.Digest.Short())
		}
	}
}

func (p *part) mediaType() string {
	if p.Image.Type == "" {
		return "image/png"
	}
	return p.Image.Type
}
