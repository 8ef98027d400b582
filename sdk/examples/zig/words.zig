// A step in Zig without an SDK: the whole contract of a reactor by hand. It
// counts the words of a text. Zig 0.11:
//
//   zig build-lib words.zig -target wasm32-wasi -dynamic -rdynamic -O ReleaseSmall
const std = @import("std");

extern "engine_v1" fn read(to: [*]u8) void;
extern "engine_v1" fn write(from: [*]const u8, n: usize) void;
extern "engine_v1" fn call(from: [*]const u8, n: usize) usize;

const Word = struct { word: []const u8, count: usize };

export fn step_run(n: usize) void {
    run(n) catch @panic("out of memory");
}

fn run(n: usize) !void {
    var arena = std.heap.ArenaAllocator.init(std.heap.wasm_allocator); // an instance lives for one attempt
    const a = arena.allocator();
    const message = try a.alloc(u8, n);
    read(message.ptr);
    const Request = struct { input: struct { text: []const u8, least: usize = 1 } };
    const parsed = std.json.parseFromSlice(Request, a, message, .{ .ignore_unknown_fields = true }) catch {
        return refuse(a, "want a string", "/text");
    };
    if (parsed.value.input.least < 1) return refuse(a, "want a whole number from 1", "/least");
    var words = std.ArrayList(Word).init(a);
    var total: usize = 0;
    var it = std.mem.tokenizeAny(u8, parsed.value.input.text, " \t\r\n");
    next: while (it.next()) |word| {
        total += 1;
        for (words.items) |*w| {
            if (std.mem.eql(u8, w.word, word)) {
                w.count += 1;
                continue :next;
            }
        }
        try words.append(.{ .word = word, .count = 1 });
    }
    var kept = std.ArrayList(Word).init(a);
    for (words.items) |w| {
        if (w.count >= parsed.value.input.least) try kept.append(w);
    }
    const say = "{\"op\":\"log\",\"level\":\"info\",\"message\":\"the words are counted\"}";
    const reply = try a.alloc(u8, call(say, say.len));
    read(reply.ptr); // {"ok":{}}
    try respond(a, .{ .output = .{ .total = total, .words = kept.items } });
}

fn refuse(a: std.mem.Allocator, message: []const u8, path: []const u8) !void {
    try respond(a, .{ .@"error" = .{ .class = "invalid_input", .message = message, .path = path } });
}

fn respond(a: std.mem.Allocator, value: anytype) !void {
    const text = try std.json.stringifyAlloc(a, value, .{});
    write(text.ptr, text.len);
}
