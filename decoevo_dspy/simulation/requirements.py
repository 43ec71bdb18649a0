"""The 24 latent requirements of the simulated world. Pure data; what else the world values is in `catalogue`.

Every phrase is shorter than eight words, so a rule that uses one never shares a long run with gold text, which has its
own wording (``gold``).
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """One latent requirement.

    ``points``: gold points, 2–10, or −10…−2 for something that must be avoided; the phrases of such a requirement say
    the harmful thing. ``difficulty`` in [0, 1] lowers the solver's base rate. ``obvious``: every rubric writer thinks
    of it unasked. ``kind``: the heading of the public text it belongs to, or ``judgement``/``afterwards``, which the
    public text does not list. ``phrases`` are the wordings by which a text is found to name it; ``cues`` are the words
    of a question that make it count (``cues_zh`` without word boundaries).
    """

    key: str
    kind: str
    points: int
    difficulty: float
    phrases: tuple[str, ...]
    phrases_zh: tuple[str, ...]
    gold: str
    gold_zh: str
    cues: tuple[str, ...]
    cues_zh: tuple[str, ...]
    obvious: bool = False

    @property
    def harmful(self) -> bool:
        """Whether an answer must avoid it."""
        return self.points < 0


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split("|") if part.strip())


def _requirement(
    key: str, kind: str, points: int, difficulty: float, *, phrases: str, zh: str, gold: str, gold_zh: str, cues: str,
    cues_zh: str, obvious: bool = False,
) -> Requirement:  # fmt: skip
    return Requirement(
        key=key,
        kind=kind,
        points=points,
        difficulty=difficulty,
        phrases=_split(phrases),
        phrases_zh=_split(zh),
        gold=gold,
        gold_zh=gold_zh,
        cues=_split(cues),
        cues_zh=_split(cues_zh),
        obvious=obvious,
    )


REQUIREMENTS: tuple[Requirement, ...] = (
    _requirement(
        "isolate", "safety", 9, 0.5,
        phrases="switch off the supply first|turn the mains off beforehand|isolate the water or power|"
        "shut the valve or breaker",
        zh="先关掉总闸|先切断水电",
        gold="Has water, gas or electricity cut at the source",
        gold_zh="让人从源头断水断电断气",
        cues="leak|leaks|leaking|drip|drips|dripping|pipe|pipes|tap|socket|sockets|wiring|fuse|boiler|"
        "radiator|cistern|"
        "light fitting|ceiling lamp|doorbell|washing machine|dishwasher|thermostat",
        cues_zh="漏水|水管|水龙头|插座|电线|热水器|跳闸|洗衣机|吊灯",
    ),
    _requirement(
        "professional", "safety", 7, 0.2, obvious=True,
        phrases="call a qualified professional|bring in a licensed expert|hand it to a certified trade|"
        "leave that part to a pro",
        zh="请持证的专业人员|找有资质的师傅",
        gold="Says which part is beyond a layperson's skill",
        gold_zh="说明哪一步超出外行的能力",
        cues="myself|ourselves|diy|on my own|on our own|never done|beginner|beginners|handy|by hand|"
        "two left hands|amateur",
        cues_zh="自己动手|自己弄|自己来|没经验|新手|外行",
    ),
    _requirement(
        "warning_signs", "safety", 10, 0.8,
        phrases="watch for danger signs|stop at the first warning sign|know the red flags|"
        "name the symptoms of trouble",
        zh="留意危险信号|出现异常立即停下",
        gold="Explains when to halt because something is wrong",
        gold_zh="讲清什么情况说明不对劲",
        cues="smell|smells|smelly|crack|cracks|cracked|mould|mouldy|damp|burnt|fever|wobbly|wobbles|hissing|"
        "strange noise|"
        "dizzy|itchy|rash|swollen|sparks|limping|wilting|wheezing",
        cues_zh="异味|裂缝|发霉|怪声|发烧|头晕|冒烟|受潮",
    ),
    _requirement(
        "children", "people", 8, 0.4, obvious=True,
        phrases="keep it out of children's reach|adapt it to the child's age|child-proof the area|"
        "give the little ones a safe role",
        zh="放在孩子够不到的地方|按孩子的年龄调整",
        gold="Takes the youngest in the household into account",
        gold_zh="考虑到家里最小的成员",
        cues="kid|kids|child|children|toddler|toddlers|son|sons|daughter|daughters|baby|twins|nephew|nephews|"
        "niece|nieces|"
        "grandson|granddaughter|grandchildren|newborn|school class",
        cues_zh="孩子|宝宝|女儿|儿子|小朋友|孙子",
    ),
    _requirement(
        "pets", "people", 6, 0.7,
        phrases="keep the animals away|check it is pet-safe|move the pet to another room|"
        "plan for the animal's needs",
        zh="别让宠物靠近|确认对宠物无害",
        gold="Spares the four-legged housemates any harm",
        gold_zh="不让家里的小动物受害",
        cues="dog|dogs|cat|cats|puppy|kitten|kittens|rabbit|rabbits|hamster|parrot|pet|pets|budgie|guinea pig|"
        "guinea pigs|tortoise",
        cues_zh="狗|猫|宠物|兔子|鹦鹉",
    ),
    _requirement(
        "access", "people", 7, 0.8,
        phrases="check for step-free access|plan for limited mobility|allow for seating and rests|"
        "ask about lifts and ramps",
        zh="确认有无障碍通道|照顾行动不便的人",
        gold="Works for somebody who cannot walk far or climb",
        gold_zh="走不远、爬不动的人也能用",
        cues="grandmother|grandfather|grandma|grandpa|grandad|wheelchair|walking stick|walking frame|elderly|"
        "bad knee|bad knees|"
        "bad hip|new hip|crutches|arthritis|frail|in her eighties|in his eighties|pensioner|pensioners",
        cues_zh="奶奶|爷爷|外婆|外公|轮椅|老人|腿脚|膝盖",
    ),
    _requirement(
        "allergies", "people", 8, 0.6,
        phrases="ask everyone about allergies|label what is in each dish|check dietary restrictions early|"
        "keep a safe option for allergy sufferers",
        zh="问清楚过敏情况|提前了解忌口",
        gold="No guest eats something that harms them",
        gold_zh="没有客人吃到会伤身的东西",
        cues="cook|cooking|cooked|cake|cakes|meal|meals|dinner|buffet|snacks|picnic|barbecue|recipe|recipes|"
        "lunch|food|bake|"
        "baking|breakfast|soup|curry|catering|potluck",
        cues_zh="做饭|蛋糕|聚餐|吃饭|野餐|烧烤|午饭|饭菜|火锅",
    ),
    _requirement(
        "neighbours", "people", 5, 0.7,
        phrases="warn the neighbours in advance|agree quiet hours next door|drop a note through their doors|"
        "tell those upstairs and downstairs",
        zh="提前告知邻居|和邻居约定安静时间",
        gold="Those living nearby hear of it in good time",
        gold_zh="住在附近的人事先知情",
        cues="neighbour|neighbours|neighbour's|noise|noisy|drilling|hammering|loud|thin walls|party|parties|"
        "music|upstairs|"
        "downstairs|next door|hedge|courtyard",
        cues_zh="邻居|噪音|太吵|楼上|楼下|隔壁|派对",
    ),
    _requirement(
        "cost", "planning", 7, 0.1, obvious=True,
        phrases="work out a rough cost range|set a ceiling for spending|get a ballpark price|"
        "keep a reserve for extras",
        zh="先估算大致费用|定一个花费上限",
        gold="Says what the whole thing may come to in money",
        gold_zh="说出整件事大约要花多少",
        cues="budget|afford|cheap|cheaper|cheaply|money|euros|pounds|expensive|broke|savings|cost|costs|"
        "pricey|tight purse|payday",
        cues_zh="预算|花钱|便宜|省钱|太贵|块钱|存款",
    ),
    _requirement(
        "time", "planning", 6, 0.1, obvious=True,
        phrases="allow a realistic amount of time|block out hours for each stage|plan backwards from the date|"
        "leave a buffer day",
        zh="留出充足的时间|从截止日期倒推",
        gold="Reckons with the hours or days that are needed",
        gold_zh="算出需要几小时或几天",
        cues="weekend|deadline|monday|tuesday|wednesday|thursday|friday|saturday|sunday|tomorrow|next week|"
        "tonight|hurry|"
        "fortnight|days left|hours left|by june|by august|by christmas|by easter|bank holiday",
        cues_zh="周末|明天|下周|来不及|赶时间|月底|国庆|春节",
    ),
    _requirement(
        "sequence", "planning", 5, 0.0, obvious=True,
        phrases="tackle it in numbered steps|do things in a fixed order|start with the smallest step|"
        "follow a step-by-step plan",
        zh="按步骤一步步来|列出先后顺序",
        gold="Gives a sequence that can be followed to the end",
        gold_zh="给出能照着做到底的次序",
        cues="where to start|where do i start|where do we start|where to begin|first step|overwhelmed|"
        "no idea how|how do i even|"
        "how do i go about|how should i go about|how would you go about|what comes first|"
        "where would you begin|in what order",
        cues_zh="从哪里开始|第一步|不知道怎么|无从下手|先做什么",
    ),
    _requirement(
        "tools", "planning", 3, 0.2, obvious=True,
        phrases="gather the tools beforehand|make a packing or shopping list|lay out all materials first|"
        "check the equipment is complete",
        zh="提前备齐工具|列好物品清单",
        gold="Everything needed is at hand before work begins",
        gold_zh="动手之前要用的都在手边",
        cues="tools|toolbox|screwdriver|ladder|kit|pack|packing|suitcase|suitcases|equipment|materials|gear|"
        "supplies|rucksack|"
        "spanner|paintbrush|tape measure",
        cues_zh="工具|行李|材料|装备|梯子|螺丝刀",
    ),
    _requirement(
        "weather", "planning", 5, 0.5,
        phrases="have a bad-weather plan|keep a rainy-day alternative|check the forecast twice|"
        "prepare shelter and shade",
        zh="准备下雨的备用方案|提前看天气预报",
        gold="Covers what happens if it pours or turns hot",
        gold_zh="讲到大雨或酷热时怎么办",
        cues="rain|rains|rainy|garden|outdoors|outside|camping|campsite|beach|hike|hiking|park|terrace|"
        "balcony|heatwave|storm|"
        "storms|snow|lawn|allotment|greenhouse|patio|roof",
        cues_zh="下雨|户外|花园|露营|阳台|台风|海边|公园|爬山",
    ),
    _requirement(
        "consent", "rules", 8, 0.8,
        phrases="get the owner's consent in writing|have the landlord sign off|"
        "obtain written permission from the owner|put the request to them by letter",
        zh="取得房东的书面同意|让业主书面确认",
        gold="Approval by whoever holds the property is on paper",
        gold_zh="产权人的许可落在纸面上",
        cues="landlord|landlord's|landlady|rent|rented|renting|tenant|tenants|lease|letting agent|sublet|tenancy",
        cues_zh="房东|租房|租的|出租|租约|租客",
    ),
    _requirement(
        "evidence", "rules", 7, 0.6,
        phrases="photograph everything with dates|keep receipts and messages|build a dated paper trail|"
        "record the condition in pictures",
        zh="拍照留存证据|保存收据和聊天记录",
        gold="Secures proof that would stand up later",
        gold_zh="留下日后站得住的凭据",
        cues="deposit|damage|damaged|claim|insurance|insurer|dispute|complain|complaint|broken|scratched|"
        "scratches|refund|delayed|"
        "blame|blames|blaming|dented|warranty|lost luggage",
        cues_zh="押金|损坏|赔偿|保险|投诉|退款|弄坏|刮花",
    ),
    _requirement(
        "permits", "rules", 7, 0.7,
        phrases="check the local rules|ask whether a permit is needed|read the house regulations|"
        "ring the council about restrictions",
        zh="查清当地规定|确认是否需要审批",
        gold="Stays within what the municipality or building allows",
        gold_zh="不越过市里或楼里允许的范围",
        cues="council|permit|permits|allowed|legal|illegal|regulations|fence|parking|building management|"
        "listed building|"
        "homeowners|bylaws|protected|town hall|shared hallway|street trading",
        cues_zh="规定|物业|允许|合法|停车|审批|居委会",
    ),
    _requirement(
        "cancellation", "rules", 6, 0.4,
        phrases="read the cancellation terms|check how refunds work|prefer bookings you can change|"
        "note the free cancellation date",
        zh="看清退改规则|优先选可退的预订",
        gold="Says what backing out would mean",
        gold_zh="说明临时反悔的后果",
        cues="booked|booking|bookings|ticket|tickets|hotel|flight|flights|reservation|reserved|train|trains|"
        "venue|hired|ferry|"
        "hostel|holiday flat|season pass|airline",
        cues_zh="预订|订了|机票|酒店|车票|门票|民宿|航班",
    ),
    _requirement(
        "official", "rules", 7, 0.6,
        phrases="confirm it on the official site|ask the responsible office directly|"
        "use the authority's own form|rely on the agency's own page",
        zh="以官方网站为准|直接咨询主管部门",
        gold="Names the body in charge as the source",
        gold_zh="指明由哪个机构说了算",
        cues="visa|visas|passport|passports|tax|taxes|form|forms|registration|register|licence|licences|"
        "residence|benefits|"
        "paperwork|customs|pension|id card|vaccination papers",
        cues_zh="签证|护照|表格|报税|登记|证件|手续|驾照|社保",
    ),
    _requirement(
        "alternatives", "judgement", 6, 0.4,
        phrases="weigh at least two options|compare it with a plan b|list pros and cons side by side|"
        "consider the opposite choice too",
        zh="至少比较两个方案|列出各自的利弊",
        gold="Shows more than one way out, with what speaks for each",
        gold_zh="给出不止一条路并讲明得失",
        cues="torn|or should i|or should we|either|undecided|can't decide|cannot decide|versus|whether|"
        "dilemma|would it be better|"
        "is it better|which is better|second thoughts|in two minds",
        cues_zh="还是|纠结|犹豫|二选一|拿不定",
    ),
    _requirement(
        "disposal", "afterwards", 4, 0.7,
        phrases="dispose of the waste properly|reuse what can be reused|take leftovers to recycling|"
        "donate what still works",
        zh="妥善处理垃圾|能再用的尽量再用",
        gold="Old stuff ends up in the right place",
        gold_zh="旧东西有合适的去处",
        cues="rubbish|throw away|throwing away|throw out|leftover|leftovers|junk|clutter|cluttered|worn-out|"
        "worn out|bulky|attic|scrap|"
        "packaging|empties|bin bags|skip|cellar|clear out|clearing out",
        cues_zh="旧家具|扔掉|垃圾|剩下|杂物|淘汰|纸箱",
    ),
    _requirement(
        "recheck", "afterwards", 6, 0.9,
        phrases="test the result the next day|check again after a week|confirm that it really held|"
        "keep an eye on it afterwards",
        zh="过几天再检查一遍|事后确认效果",
        gold="Verifies later that the solution has lasted",
        gold_zh="日后核实办法是否管用",
        cues="again|keeps|keep coming|every time|came back|comes back|third time|second time|once more|"
        "returns|recurring|last time|"
        "last year|time and again|all over again",
        cues_zh="又|反复|总是|老是|再次|上次",
    ),
    _requirement(
        "mixing", "safety", -8, 0.5,
        phrases="mix bleach with other cleaners|pour several chemicals together|"
        "combine strong products for effect|add vinegar to the bleach",
        zh="把清洁剂混在一起用|在漂白剂里加醋",
        gold="Has cleaning agents blended with one another",
        gold_zh="让人把不同药剂掺到一起",
        cues="clean|cleaning|cleaned|stain|stains|stained|bleach|drain|drains|limescale|grease|greasy|blocked|"
        "scrub|scrubbing|mildew|"
        "grime|disinfect|toilet|weed killer",
        cues_zh="清洁|污渍|下水道|堵了|油污|水垢|消毒|马桶",
    ),
    _requirement(
        "breach", "rules", -7, 0.6,
        phrases="simply stop paying|hold money back until they give in|just ignore the contract|"
        "break the agreement quietly",
        zh="干脆停止付款|不用管合同",
        gold="Advises breach of an obligation as leverage",
        gold_zh="教人违约来施压",
        cues="contract|contracts|unfair|angry|refuse|refuses|refused|furious|agreement|overcharged|invoice|"
        "fee|fees|bill|bills|"
        "subscription|small print|owe|owes",
        cues_zh="合同|不公平|生气|拒绝|账单|乱收费|欠",
    ),
    _requirement(
        "certainty", "judgement", -5, 0.3,
        phrases="promise that it will work|guarantee the outcome|assure them nothing can go wrong|"
        "treat success as certain",
        zh="保证一定成功|断言必然顺利",
        gold="Swears to a result that nobody can know",
        gold_zh="对没人能料到的结果打包票",
        cues="guaranteed|sure|certain|definitely|for good|worried|afraid|nervous|anxious|scared|safe bet|risk|"
        "risky|foolproof",
        cues_zh="一定|担心|害怕|放心|怕|万无一失",
    ),
)  # fmt: skip
"""The 24 latent requirements, 21 to fulfil and 3 to avoid."""
