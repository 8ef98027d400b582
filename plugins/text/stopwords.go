package main

import "github.com/retrace-dev/engine/plugins/text/prose"

// Words that are no keywords: they say how, not what.

const emptyCharacters = "的了是在不有我你他她它們们這这那個个之乎者也而其於于為为以與与則则乃及且所此曰云道說说何如若又亦皆便就一二三四五六七八九十百千必今故無无只自將将被把來来去上下中人吾汝公彼某已矣哉耳見见"

var emptyWords = prose.WordSet(`a about above after again against all almost alone along already also although always am among an and 
another any anything are around as asked at away back be became because been before began behind being below better 
between both brought but by call called came can cannot can't come could couldn't cried day days dear did didn't do does 
doesn't done don't door down during each either else end enough even ever every everything eyes face far few find first 
for found from gave get give given go goes going gone good got great had half hand hands hardly has have haven't having 
he head hear heard her here herself he's him himself his hour hours how however i i'd i'll i'm i've if in indeed instead 
into is isn't it it's its itself just keep kept knew know known large last least left less let like little long look 
looked looking made make man many matter may me men might mind mine minutes miss more morning most mr mrs much must my 
myself near never new next night no nor not nothing now o'clock of off oh old on once one only open or other others our 
out over own part people perhaps place point put quite rather really remarked right room round said same sat saw say 
says see seem seemed seems seen several shall she should side since sir sit small so some something sometimes soon still 
stood such sure take taken tell than that that's the their them themselves then there there's these they thing things 
think this those though thought three through time to told too took toward towards two under until up upon us use used 
very want wanted was wasn't way we well we'll went were weren't what when where whether which while who whole whom whose 
why will wish with within without woman won't word words work would wouldn't year years yes yet you young your yours 
yourself you've you'd you'll you're dr answered course turned leave world`)
